-- leave: a waiter goes away, or was woken and no longer waits.
--
-- KEYS  1 lock  2 queue
-- ARGV  1 the waiter's member, 'channel#ticket'
-- Reply {code}
--       code 1 left the queue  2 passed the wake-up on  3 nothing to pass on
--
-- Whoever is no longer queued was popped by a release: the wake-up it was given
-- must reach the next waiter, unless somebody holds the lock and will release it.

-- lib.lua
-- queue.lua

if redis.call('ZREM', KEYS[2], ARGV[1]) == 1 then
  return {1}
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {3}
end
local popped = redis.call('ZPOPMIN', KEYS[2])
return {hand_over(popped, KEYS[2], KEYS[1], true) == 1 and 2 or 3}
