import { KINDS } from './record.ts'

/** All names share a slot of a cluster. */
export const PREFIX = '{holdfast:revocation}:'
/** A hash of the records, as `record.ts` writes them. */
export const RECORDS = `${PREFIX}records`
/** A stream of changes, of bounded length: each row has an instance, and keys with their records. */
export const CHANGES = `${PREFIX}changes`
/**
 * A hash. `count` and `clock`: see `clock.ts`. `epoch`: a random text, which is changed by each step of an instance
 * that restores what was lost. `floor`: whoever has not read the changes up to here has missed some. `last`: the place
 * of the last change.
 */
export const STATE = `${PREFIX}state`
/** A hash of the instances: the number of their last call, up to where they have read the changes, and when. */
export const INSTANCES = `${PREFIX}instances`
/** A hash of the instances that restore: when they last did, and for how long others wait then. */
export const RESTORING = `${PREFIX}restoring`
/** Before the name of a task: the instance that does it. */
export const LEADER = `${PREFIX}leader:`

/** Records in a row of the changes, and rows that are kept for an instance that is slow to read them. */
const ROW = 50
const MAX_ROWS = 10_000
/** Rows that one step removes: each may hold 50 records, and others wait meanwhile. */
const TRIM = 200
/** Records that are read from the hash and written to it by one command: a script has room for so many texts. */
const GROUP = 500
/** An instance that has said nothing for so long has to read the records again. */
const PATIENCE_MS = 15_000
/** After so long, the store forgets an instance that says nothing. */
export const FORGET_MS = 3_600_000

/** Takes the clock on, by what an instance says that has counted it. */
const CLOCK = `
local count, clock = unpack(redis.call('HMGET', KEYS[1], 'count', 'clock'))
clock = tonumber(clock)
if count and count == ARGV[4] and tonumber(ARGV[5]) > clock then clock = tonumber(ARGV[5]) end`

/** Reads and writes records, as `record.ts` does. */
const RECORD_FUNCTIONS = `
local function parse(text)
  local record = { parts = {}, undone = -1 }
  for line in string.gmatch(text or '', '[^\\n]+') do
    if not record.since then
      local holder, since = string.match(line, '^([^\\t]*)\\t(%d+)$')
      if not since then return nil end
      record.holder, record.since = holder, tonumber(since)
    else
      local kind, at, heard, life, origin = string.match(line, '^(%a)\\t(%d+)\\t(%d+)\\t(%d+)\\t(.*)$')
      if not kind then return nil end
      record.parts[kind] = { at = tonumber(at), heard = tonumber(heard), life = tonumber(life), origin = origin }
      if kind == 'u' then record.undone = tonumber(at) end
    end
  end
  return record.since and record
end`

/**
 * Merges records into the store. KEYS: state, instances, restoring, changes, records. ARGV: instance, the last call of
 * it that was answered, this call, count, clock, a new epoch, milliseconds for which others wait for it, its place in
 * the changes, then for each record: the mode, the key, the record. Returns an empty list to an instance that does not
 * know yet that the store has lost something; else the number of rows that are kept, the place up to where the instance
 * has read if that is its own row now, and for each record that does not stand as it was sent, its number and what
 * stands.
 */
export const MERGE = `${CLOCK}
local call, place = string.match(redis.call('HGET', KEYS[2], ARGV[1]) or '', '^(%d+) (%S+)')
if count ~= ARGV[4] or not call or tonumber(call) < tonumber(ARGV[2]) then return {} end
local time = redis.call('TIME')
local unixMs = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
${RECORD_FUNCTIONS}
local function write(record)
  local lines = { string.format('%s\\t%.0f', record.holder, record.since) }
  for kind in string.gmatch('${KINDS}', '.') do
    local part = record.parts[kind]
    if part then
      local head = string.format('%s\\t%.0f\\t%.0f\\t%.0f\\t', kind, part.at, part.heard, part.life)
      lines[#lines + 1] = head .. part.origin
    end
  end
  return table.concat(lines, '\\n')
end
local function add(parts, kind, part)
  local known = parts[kind]
  if not known then parts[kind] = part return end
  local isLater = part.at > known.at or (part.at == known.at and part.origin > known.origin)
  local newest = isLater and part or known
  parts[kind] = {
    at = newest.at,
    heard = math.max(known.heard, part.heard),
    life = math.max(known.life, part.life),
    origin = newest.origin
  }
end
local function merge(stored, given, mode)
  local isAfter = mode == 'event' or mode == 'operator'
  local least = mode == 'operator' and unixMs or 0
  local heard, undoneHeard = 0, -1
  if mode == 'undo' then
    least = unixMs
    for _, part in pairs(stored and stored.parts or {}) do
      least, heard = math.max(least, part.at + 1), math.max(heard, part.heard)
    end
  end
  for kind, part in pairs(given.parts) do
    if kind ~= 'u' or mode == 'undo' then
      part.at = math.max(part.at, least)
      part.heard = math.max(part.heard, heard)
    end
  end
  if given.parts.u then given.undone = given.parts.u.at end
  if not stored then return given end
  local parts, undone = {}, math.max(stored.undone, given.undone)
  for _, record in ipairs({ stored, given }) do
    if record.parts.u then undoneHeard = math.max(undoneHeard, record.parts.u.heard) end
  end
  for kind, part in pairs(stored.parts) do
    if kind == 'u' or stored.undone == undone or part.heard > undoneHeard then add(parts, kind, part) end
  end
  for kind, part in pairs(given.parts) do
    local known = stored.parts[kind]
    local isRepeat = isAfter and given.undone <= stored.undone and known and known.at == part.at and
      known.life >= part.life and (known.heard + known.life) * 1000 > clock
    local counts = kind == 'u' or isAfter or given.undone == undone or part.heard > undoneHeard
    if counts and not isRepeat then add(parts, kind, part) end
  end
  local isFirst = isAfter or stored.since < given.since or
    (stored.since == given.since and stored.holder <= given.holder)
  local first = isFirst and stored or given
  return { holder = first.holder, since = first.since, parts = parts }
end
local last = redis.call('HGET', KEYS[1], 'last')
local answers, isRestored, isNext = { 0, '' }, false, ARGV[8] == last
for first = 9, #ARGV, ${3 * GROUP} do
  local keys, known, changed, isChanged = {}, {}, {}, {}
  local final = math.min(#ARGV, first + ${3 * GROUP} - 1)
  for i = first, final, 3 do keys[#keys + 1] = ARGV[i + 1] end
  for n, text in ipairs(redis.call('HMGET', KEYS[5], unpack(keys))) do known[keys[n]] = text end
  for i = first, final, 3 do
    local mode, key, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local stored = known[key]
    local stands = text
    if stored ~= text and (stored or mode == 'undo' or mode == 'operator') then
      stands = write(merge(parse(stored or nil), parse(text), mode))
    end
    if stands ~= stored then
      known[key] = stands
      if not isChanged[key] then changed[#changed + 1] = key end
      isChanged[key] = true
      isRestored = isRestored or mode == 'restore'
    end
    if stands ~= text then
      answers[#answers + 1] = (i - 9) / 3
      answers[#answers + 1] = stands
    end
  end
  for n = 1, #changed, ${ROW} do
    local row = {}
    for m = n, math.min(#changed, n + ${ROW} - 1) do
      row[#row + 1] = changed[m]
      row[#row + 1] = known[changed[m]]
    end
    redis.call('HSET', KEYS[5], unpack(row))
    last = redis.call('XADD', KEYS[4], '*', 'w', ARGV[1], unpack(row))
    if isNext then answers[2] = last end
  end
end
if last then redis.call('HSET', KEYS[1], 'last', last) end
if answers[2] ~= '' then place = answers[2] end
answers[1] = redis.call('XLEN', KEYS[4])
if answers[1] > ${MAX_ROWS} then
  redis.call('XTRIM', KEYS[4], 'MAXLEN', '~', ${MAX_ROWS}, 'LIMIT', ${TRIM})
  redis.call('HSET', KEYS[1], 'floor', redis.call('XRANGE', KEYS[4], '-', '+', 'COUNT', 1)[1][1])
end
local at = string.format('%.0f', clock)
redis.call('HSET', KEYS[1], 'clock', at)
redis.call('HSET', KEYS[2], ARGV[1], math.max(tonumber(call), tonumber(ARGV[3])) .. ' ' .. place .. ' ' .. at)
if isRestored and ARGV[7] ~= '' then
  redis.call('HSET', KEYS[1], 'epoch', ARGV[6])
  redis.call('HSET', KEYS[3], ARGV[1], at .. ' ' .. ARGV[7])
end
return answers`

/**
 * Reads what has changed after a place. KEYS: state, instances, restoring, changes. ARGV: instance, the last call of it
 * that was answered (-1: none), this call, count, clock, a new count and epoch, the place (`$`: the last change),
 * about how many records, `restoring` while the instance has something to restore, milliseconds for which one that says
 * nothing counts, and the others that were there when it last looked, each with its silence. Returns: count, clock,
 * Unix seconds, epoch, floor, the last call of the instance that the store knows (-1: none); after a loss its place
 * then, else the others with their silence if it has looked; whether others restore, the place of the last change that
 * was read, after a loss the clock before this call; whether there are more, and key and record of each that is of
 * another instance.
 */
export const READ = `${CLOCK}
if not count then
  count, clock = ARGV[6], tonumber(ARGV[5])
  redis.call('HSET', KEYS[1], 'count', count, 'clock', ARGV[5], 'epoch', ARGV[6], 'floor', '0-0')
end
local unixSeconds = redis.call('TIME')[1]
local written, epoch, floor, last = unpack(redis.call('HMGET', KEYS[1], 'clock', 'epoch', 'floor', 'last'))
local at = string.format('%.0f', clock)
local known, knownPlace = string.match(redis.call('HGET', KEYS[2], ARGV[1]) or '', '^(%d+) (%S+)')
known = tonumber(known or '-1')
if known < tonumber(ARGV[2]) then
  -- Each of them may hold what was lost, also one that is stopped now. Nothing is lost if this one was forgotten alone.
  for i = 11, (count ~= ARGV[4] or known >= 0) and #ARGV or 0, 2 do
    redis.call('HSETNX', KEYS[3], ARGV[i], string.format('%.0f', clock - tonumber(ARGV[i + 1])) .. ' ' .. ARGV[10])
  end
  return { count, at, unixSeconds, epoch, floor, known, knownPlace or '', 1, written, 0 }
end
local place, hasMore, news, others, size, reads = ARGV[7], 1, {}, '', 0, 0
if place == '$' then place = last or floor end
while hasMore == 1 and size < 2 * tonumber(ARGV[8]) do
  local rows = redis.call('XRANGE', KEYS[4], '(' .. place, '+', 'COUNT', 20)
  if #rows < 20 then hasMore = 0 end
  reads = reads + #rows
  for _, row in ipairs(rows) do
    place = row[1]
    size = size + #row[2]
    if row[2][2] ~= ARGV[1] then
      for n = 3, #row[2] do news[#news + 1] = row[2][n] end
    end
  end
end
local isWaited, isRestored = 0, false
local restoring = redis.call('HGETALL', KEYS[3])
for i = 1, #restoring, 2 do
  local since, patience = string.match(restoring[i + 1], '^(%d+) (%d+)$')
  if restoring[i] == ARGV[1] and ARGV[9] == 'restoring' then
    redis.call('HSET', KEYS[3], ARGV[1], at .. ' ' .. patience)
    isWaited = 1
  elseif restoring[i] == ARGV[1] then
    -- Also if a call of it came late, after it had restored all.
    redis.call('HDEL', KEYS[3], ARGV[1])
    epoch, isRestored = ARGV[6], true
    redis.call('HSET', KEYS[1], 'epoch', epoch)
  elseif clock - tonumber(since) > tonumber(patience) then redis.call('HDEL', KEYS[3], restoring[i])
  else isWaited = 1 end
end
-- A server that is no longer the master says so.
if reads > 0 or known == -1 or isRestored or clock >= tonumber(written) + 400 then
  redis.call('HSET', KEYS[1], 'clock', at)
  redis.call('HSET', KEYS[2], ARGV[1], math.max(known, tonumber(ARGV[3])) .. ' ' .. place .. ' ' .. at)
  known = math.max(known, tonumber(ARGV[3]))
  local function isBefore(id, other)
    local ms, n = string.match(id, '^(%d+)-(%d+)$')
    local otherMs, m = string.match(other, '^(%d+)-(%d+)$')
    if ms == otherMs then return tonumber(n) < tonumber(m) end
    return tonumber(ms) < tonumber(otherMs)
  end
  local low = place
  others = '-'
  local instances = redis.call('HGETALL', KEYS[2])
  for i = 1, #instances, 2 do
    local readTo, last = string.match(instances[i + 1], '^%d+ (%S+) (%d+)$')
    local silence = clock - tonumber(last)
    if silence > ${FORGET_MS} then redis.call('HDEL', KEYS[2], instances[i])
    elseif silence < ${PATIENCE_MS} and isBefore(readTo, low) then low = readTo end
    if silence < tonumber(ARGV[10]) and instances[i] ~= ARGV[1] then
      others = others .. ' ' .. instances[i] .. ' ' .. string.format('%.0f', silence)
    end
  end
  if isBefore(floor, low) then
    redis.call('XTRIM', KEYS[4], 'MINID', '~', low, 'LIMIT', ${TRIM})
    redis.call('HSET', KEYS[1], 'floor', low)
  end
end
local answer = { count, at, unixSeconds, epoch, floor, known, others, isWaited, place, hasMore }
for _, text in ipairs(news) do answer[#answer + 1] = text end
return answer`

/** The run of the server that has a key. KEYS: records. */
export const RUN = 'return string.match(redis.call("INFO", "server"), "run_id:(%w+)") or ""'

/**
 * Removes the records of a page that are over by the clock of the instance. KEYS: state, records. ARGV: count, clock,
 * Unix seconds, cursor, about how many. Returns the next cursor, and how many were removed.
 */
export const CLEAN = `
if redis.call('HGET', KEYS[1], 'count') ~= ARGV[1] then return { ARGV[4], 0 } end
${RECORD_FUNCTIONS}
local page = redis.call('HSCAN', KEYS[2], ARGV[4], 'COUNT', ARGV[5])
local over = {}
for i = 1, #page[2], 2 do
  local record = parse(page[2][i + 1])
  local isOver = record ~= nil
  for kind, part in pairs(record and record.parts or {}) do
    local n = record.parts.n
    if (part.heard + part.life) * 1000 > tonumber(ARGV[2]) or part.at / 1000 + part.life > tonumber(ARGV[3]) or
      (kind == 'b' and not (n and n.at > part.at)) then isOver = false break end
  end
  if isOver then over[#over + 1] = page[2][i] end
end
for i = 1, #over do redis.call('HDEL', KEYS[2], over[i]) end
return { page[1], #over }`

/**
 * A key that lives for longer than it was ever given does not count: the clock of the server has leapt since.
 * KEYS: leader. ARGV: this instance, milliseconds.
 */
export const LEAD = `
local leader, left = redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])
if leader and leader ~= ARGV[1] and left >= 0 and left <= tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`

/** KEYS: leader. ARGV: this instance. */
export const LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('UNLINK', KEYS[1]) end`
