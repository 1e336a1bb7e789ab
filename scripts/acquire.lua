-- acquire: proposes ballot p for the lock.
--
-- KEYS  1 lock  2 fence  3 queue  4 restart marker (only with the guard)
-- ARGV  1 id: the value without its ballot     2 p: the ballot
--       3 expiry, ms                           4 S: the skew bound, us
--       5 R: fence retention, ms               6 longest hold, ms; 0: no guard
--       7 member: 'channel#ticket', '' to join no queue
--       8 ticket: place in the queue
-- Reply {code, now us, fence, ttl ms, holder's ballot, rank}
--       code 1 granted  2 busy  3 stale  4 quarantined
--       ttl: of the lock when busy (-1: it never expires), of the quarantine
--       rank: place in the queue from 0, -1 when not queued

local id, ballot, px = ARGV[1], ARGV[2], tonumber(ARGV[3])
local p, retention, member = tonumber(ballot), tonumber(ARGV[5]), ARGV[7]
local held = redis.call('GET', KEYS[1])
local c, known = fence(KEYS[2])
local now = clock()

local again = held and owned(held, id)
if held and not again then
  local _, g = split(held)
  local ttl, rank = redis.call('PTTL', KEYS[1]), -1
  if member ~= '' then
    -- pcall: an out-of-memory ZADD must not hide that the lock is busy.
    local joined = redis.pcall('ZADD', KEYS[3], 'NX', ARGV[8], member)
    if type(joined) == 'number' then
      rank = redis.call('ZRANK', KEYS[3], member)
      redis.call('PEXPIRE', KEYS[3], longest(KEYS[3], math.max(ttl, 0) + retention))
    end
  end
  return {2, now, c, ttl, g, rank}
end

local free_in = quarantine(KEYS[4], tonumber(ARGV[6]), now, px + retention)
if free_in > 0 then
  return {4, now, c, free_in, 0, -1}
end

-- A proposal repeated by its own attempt may equal the fence: it set it.
if p < c or (p == c and not again) or math.abs(p - now) > tonumber(ARGV[4]) then
  return {3, now, c, 0, 0, -1}
end

local lock_px, fence_px = px, px + retention
if again then
  lock_px = longest(KEYS[1], px)
end
if known then
  fence_px = longest(KEYS[2], fence_px)
end
local value = id
if string.sub(id, -1) == '.' then
  value = id .. ballot
end
redis.call('SET', KEYS[1], value, 'PX', lock_px)
redis.call('SET', KEYS[2], ballot, 'PX', fence_px)
if member ~= '' then
  redis.call('ZREM', KEYS[3], member)
end
return {1, now, p, lock_px, p, -1}
