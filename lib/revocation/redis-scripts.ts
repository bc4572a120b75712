/** The stream of entries. All names share a slot of a cluster. */
export const LOG = '{holdfast:revocation}:log'
/**
 * A random text that is lost with the data, and never written twice: that it changes shows that a server was emptied.
 */
export const EPOCH = '{holdfast:revocation}:epoch'
/** Exists while instances may still be restoring what a server has lost. */
export const SETTLING = '{holdfast:revocation}:settling'
/**
 * Milliseconds that have passed for the log, counted by the steady clocks of the instances. No clock that is set takes
 * part once it runs.
 */
export const CLOCK = '{holdfast:revocation}:clock'
/** Up to which entry the log was cleaned: whoever has not read that far reads it anew. */
export const CLEANED = '{holdfast:revocation}:cleaned'

/** Before the name of a task: the instance that does it. */
export const LEADER = '{holdfast:revocation}:leader:'

/** A wait for new entries. It is shorter than the time after which a connection counts as dead. */
export const BLOCK_MS = 200
/**
 * What was lost is restored by then: an instance that is connected looks at the log each 200 ms at least, and one that
 * is not tries to connect each 500 ms.
 */
export const SETTLE_MS = 3 * BLOCK_MS

/**
 * Whether the entry up to which an instance has read is still there, or was the last that was cleaned away. KEYS, ARGV:
 * see the scripts.
 */
const isThere = (log: string, cleaned: string, id: string): string =>
  `${id} == '0-0' or #redis.call('XRANGE', ${log}, ${id}, ${id}) > 0 or redis.call('GET', ${cleaned}) == ${id}`

/**
 * Sets `left` to the milliseconds that a key lives: -2 if it does not exist, Infinity if it lives for longer than it
 * was ever given, because the clock of the server has leapt since.
 */
const timeLeft = (key: string, givenMs: string): string => `
local left = redis.call('PTTL', ${key})
if left == -1 or left > tonumber(${givenMs}) then left = math.huge end`

/**
 * Reads a page of the log after a place, and the state of all. The clock goes on only from the value that the instance
 * has seen, by the time that has passed there since: so it never runs faster than time. KEYS: log, epoch, settling,
 * clock, cleaned. ARGV: after, count, a new epoch, milliseconds to settle, whether to keep others waiting, the clock as
 * it was seen (empty: never), the clock as it is now. Returns: epoch, whether others are to wait, clock, up to where
 * the log was cleaned, its length, whether `after` is still there, the last id of the page, and its entries.
 */
export const READ = `
local rows = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2])
local there = ${isThere('KEYS[1]', 'KEYS[5]', 'ARGV[1]')}
local begun = redis.call('SET', KEYS[2], ARGV[3], 'NX')
if begun or not there or ARGV[5] == '1' then redis.call('SET', KEYS[3], '1', 'PX', ARGV[4]) end
${timeLeft('KEYS[3]', 'ARGV[4]')}
if left == math.huge then redis.call('SET', KEYS[3], '1', 'PX', ARGV[4]) end
local clock = redis.call('GET', KEYS[4])
if not clock or (clock == ARGV[6] and tonumber(ARGV[7]) >= tonumber(clock) + 500) then
  clock = ARGV[7]
  if ARGV[6] == '' then
    clock = string.format('%.0f', math.min(tonumber(clock), tonumber(redis.call('TIME')[1]) * 1000))
  end
  redis.call('SET', KEYS[4], clock)
end
local texts = {}
for i, row in ipairs(rows) do texts[i] = row[2][2] end
local epoch, cleaned = redis.call('GET', KEYS[2]), redis.call('GET', KEYS[5]) or '0-0'
local length = redis.call('XLEN', KEYS[1])
local last = #rows > 0 and rows[#rows][1] or ARGV[1]
return {epoch, left == -2 and 0 or 1, clock, cleaned, length, there and 1 or 0, last, texts}`

/**
 * Appends entries. The first ones of a server without an epoch keep all waiting: it may have been emptied.
 * KEYS: log, epoch, settling. ARGV: a new epoch, milliseconds to settle, entries. Returns the last id.
 */
export const APPEND = `
local id
for i = 3, #ARGV do id = redis.call('XADD', KEYS[1], '*', 'e', ARGV[i]) end
if redis.call('SET', KEYS[2], ARGV[1], 'NX') then redis.call('SET', KEYS[3], '1', 'PX', ARGV[2]) end
return id`

/**
 * Writes entries again that were written before, as an instance knows them that has read up to a place: not if that is
 * no longer there, if an entry was undone after it, or if much came. What came is in the answer, so that nobody reads
 * again what it has written. KEYS: log, settling, cleaned. ARGV: the place, the most that may have come, milliseconds
 * to settle (0: none has to wait), the number of ids that go out of the log for it, these ids, entries. Returns:
 * whether they were written, the id up to which the instance has read then, and what came.
 */
export const REWRITE = `
if ARGV[3] ~= '0' then redis.call('SET', KEYS[2], '1', 'PX', ARGV[3]) end
local rows = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2])
local last = #rows > 0 and rows[#rows][1] or ARGV[1]
local texts = {}
local free = #rows < tonumber(ARGV[2]) and (${isThere('KEYS[1]', 'KEYS[3]', 'ARGV[1]')})
for i, row in ipairs(rows) do
  texts[i] = row[2][2]
  if string.find(row[2][2], '"undo"', 1, true) then free = false end
end
if not free then return {0, last, texts} end
local gone = tonumber(ARGV[4])
-- Without the right to it, this ends the script before anything is written.
if gone > 0 then redis.call('XDEL', KEYS[1], '0-1') end
for i = 5 + gone, #ARGV do last = redis.call('XADD', KEYS[1], '*', 'e', ARGV[i]) end
if gone > 0 then
  redis.call('XDEL', KEYS[1], unpack(ARGV, 5, 4 + gone))
  redis.call('SET', KEYS[3], ARGV[4 + gone])
end
return {1, last, texts}`

/** KEYS: log. ARGV: ids. Returns the number of the first that is there, or 0. */
export const FIND = `
for i, id in ipairs(ARGV) do if #redis.call('XRANGE', KEYS[1], id, id) > 0 then return i end end
return 0`

/** KEYS: leader. ARGV: this instance, milliseconds. */
export const LEAD = `
local leader = redis.call('GET', KEYS[1])
${timeLeft('KEYS[1]', 'ARGV[2]')}
if leader and leader ~= ARGV[1] and left < math.huge then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`
