-- Wakes the first waiter that is still there, beginning with the one that was popped:
-- nobody listens -> the next one.
-- PUBLISH is not permitted -> all keep their timers, none loses its place.
-- A member is 'channel#ticket', for one client may wait more than once; the notice
-- is 'ticket name'. With tell, whoever is first then hears '+ticket name': should the
-- one that was called be suspended, it is the next to look by itself.
local function hand_over(popped, queue, name, tell)
  while popped[1] do
    local channel, ticket = string.match(popped[1], '^([^#]*)#?(.*)$')
    local heard = redis.pcall('PUBLISH', channel, ticket .. ' ' .. name)
    if type(heard) ~= 'number' then
      -- The last one out took the queue and its expiry along.
      redis.call('ZADD', queue, popped[2], popped[1])
      redis.call('PEXPIRE', queue, longest(queue, 20000))
      return 0
    end
    if heard > 0 then
      local first = tell and redis.call('ZRANGE', queue, 0, 0)[1]
      if first then
        channel, ticket = string.match(first, '^([^#]*)#?(.*)$')
        redis.pcall('PUBLISH', channel, '+' .. ticket .. ' ' .. name)
      end
      return 1
    end
    popped = redis.call('ZPOPMIN', queue)
  end
  return 0
end
