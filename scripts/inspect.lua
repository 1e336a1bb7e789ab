-- inspect: looks without touching.
--
-- KEYS  1 lock  2 fence  3 queue
-- Reply {held, now us, fence, ttl ms, holder's ballot, waiters}
--       held 1 or 0; ttl -1: the lock never expires; ballot 0: a foreign holder

-- lib.lua
-- owner.lua

local held = redis.call('GET', KEYS[1])
local c = fence(KEYS[2])
local waiters = redis.call('ZCARD', KEYS[3])
if not held then
  return {0, clock(), c, 0, 0, waiters}
end
local _, g = split(held)
return {1, clock(), c, redis.call('PTTL', KEYS[1]), g, waiters}
