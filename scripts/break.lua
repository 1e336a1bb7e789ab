-- break: takes the lock from the holder that was observed, and from no other.
--
-- KEYS  1 lock  2 fence  3 queue  4 tombstone
-- ARGV  1 the value observed     2 its identity: the value without its ballot
--       3 R: fence retention, ms
-- Reply {code, now us, fence}
--       code 1 broken  2 missing  3 someone else's
--
-- The tombstone keeps the broken grant's own renewals from bringing it back for
-- as long as its owner could believe in it. It cannot be done with the fence: a
-- renewal's ballot follows the clock and would soon be above it.

local held = redis.call('GET', KEYS[1])
local c, known = fence(KEYS[2])
local now = clock()
if not held then
  return {2, now, c}
end
if held ~= ARGV[1] then
  return {3, now, c}
end
local ttl = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
if ttl > 0 then
  redis.call('SET', KEYS[4], ARGV[2], 'PX', ttl)
end
-- A request that the holder sent before now is refused by its ballot.
if c < now then
  local px = tonumber(ARGV[3])
  if known then
    px = longest(KEYS[2], px)
  end
  redis.call('SET', KEYS[2], string.format('%.0f', now), 'PX', px)
  c = now
end
hand_over(KEYS[3], KEYS[1])
return {1, now, c}
