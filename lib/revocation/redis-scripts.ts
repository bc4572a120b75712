/** The stream of entries. All names share a slot of a cluster. */
export const LOG = '{holdfast:revocation}:log'
/**
 * A random text, which is lost with the data and changed by each step of an instance that restores what a server has
 * lost. Until it has stayed the same for a while, nobody knows all. No clock but those of the instances takes part.
 */
export const EPOCH = '{holdfast:revocation}:epoch'
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
 * Reads a page of the log after a place, and the state of all. The clock goes on only from the value that the instance
 * has seen, by the time that has passed there since: so it never runs faster than time. KEYS: log, epoch, clock,
 * cleaned. ARGV: after, count, a new epoch, whether to keep others waiting, the clock as it was seen (empty: never),
 * the clock as it is now. Returns: epoch, clock, up to where the log was cleaned, its length, whether `after` is still
 * there, the last id of the page, and its entries.
 */
export const READ = `
local rows = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2])
local there = ${isThere('KEYS[1]', 'KEYS[4]', 'ARGV[1]')}
-- Tried each time: a server that is no longer the master says so.
redis.call('SET', KEYS[2], ARGV[3], 'NX')
if not there or ARGV[4] == '1' then redis.call('SET', KEYS[2], ARGV[3]) end
local clock = redis.call('GET', KEYS[3])
if not clock or (clock == ARGV[5] and tonumber(ARGV[6]) >= tonumber(clock) + 500) then
  clock = ARGV[6]
  if ARGV[5] == '' then
    clock = string.format('%.0f', math.min(tonumber(clock), tonumber(redis.call('TIME')[1]) * 1000))
  end
  redis.call('SET', KEYS[3], clock)
end
local texts = {}
for i, row in ipairs(rows) do texts[i] = row[2][2] end
local epoch, cleaned = redis.call('GET', KEYS[2]), redis.call('GET', KEYS[4]) or '0-0'
local length = redis.call('XLEN', KEYS[1])
local last = #rows > 0 and rows[#rows][1] or ARGV[1]
return {epoch, clock, cleaned, length, there and 1 or 0, last, texts}`

/** KEYS: log. ARGV: entries. */
export const APPEND = `
for _, text in ipairs(ARGV) do redis.call('XADD', KEYS[1], '*', 'e', text) end`

/**
 * Writes entries again that were written before, as an instance knows them that has read up to a place: not if that is
 * no longer there, if an entry was undone after it, or if much came. What came is in the answer, so that nobody reads
 * again what it has written. KEYS: log, epoch, cleaned. ARGV: the place, the most that may have come, a new epoch
 * (empty: none has to wait), the number of ids that go out of the log for it, these ids, entries. Returns: whether they
 * were written, the id up to which the instance has read then, and what came.
 */
export const REWRITE = `
if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[3]) end
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

/**
 * A key that lives for longer than it was ever given does not count: the clock of the server has leapt since.
 * KEYS: leader. ARGV: this instance, milliseconds.
 */
export const LEAD = `
local leader, left = redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])
if leader and leader ~= ARGV[1] and left >= 0 and left <= tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`
