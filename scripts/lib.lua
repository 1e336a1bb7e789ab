-- Shared by every script: redlock puts this text in front of each of them.
--
-- Ballots and times are microseconds since 1970 and stay below 2^53, where Lua
-- numbers are exact. A ballot is written only from the string that came in:
-- tostring() would turn it into 1.7e+15.

-- The node's own clock.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Splits a lock value 'generated.nonce.ballot' into 'generated.nonce.' and the
-- ballot. Any other text is a foreign holder: no identity, ballot 0.
local function split(value)
  local id, ballot = string.match(value, '^(.*%.)(%d+)$')
  if not id or #ballot > 16 then
    return nil, 0
  end
  return id, tonumber(ballot)
end

-- An identity that does not end in a dot is a whole value from elsewhere, held
-- without a ballot in it.
local function owned(value, id)
  return value == id or split(value) == id
end

-- The highest ballot this node has seen for the name, 0 if none.
local function fence(key)
  local c = redis.call('GET', key)
  if not c then
    return 0, false
  end
  if not string.match(c, '^%d+$') or #c > 16 then
    error('the fence key does not hold a ballot: ' .. key)
  end
  return tonumber(c), true
end

-- No script ever shortens the life of a lock or fence: a late duplicate would
-- otherwise end a lock its owner still counts on, or let a late acquire in.
local function longest(key, px)
  local ttl = redis.call('PTTL', key)
  if ttl > px then
    return ttl
  end
  return px
end

-- Wakes the first waiter that is still there: nobody listens -> the next one.
-- PUBLISH is not permitted -> all keep their timers, none loses its place.
-- A member is 'channel#ticket', for one client may wait more than once; the notice
-- is 'ticket name'.
local function hand_over(queue, name)
  local popped = redis.call('ZPOPMIN', queue)
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
      return 1
    end
    popped = redis.call('ZPOPMIN', queue)
  end
  return 0
end

-- The restart guard (opt-in, hold > 0: the longest hold of the fleet, in ms).
-- Returns for how many more ms this node must not vote on the name: it may have
-- forgotten a grant that is still live. A marker with the run_id last seen tells
-- a node that was restarted with its (perhaps old) data; where there is no
-- marker, only a node that has been up for a whole hold can have forgotten
-- nothing that is live.
local function quarantine(marker, hold, now, keep)
  if hold <= 0 then
    return 0
  end
  local info = redis.call('INFO', 'server')
  local run = string.match(info, 'run_id:(%w+)')
  -- Negative where the node's clock was set back behind its start.
  local up = tonumber(string.match(info, 'uptime_in_seconds:(-?%d+)')) * 1000
  local seen, free = string.match(redis.call('GET', marker) or '', '^(%w+) (%d+)$')
  if seen == run then
    free = tonumber(free)
  elseif seen then
    free = now + hold * 1000
  elseif up >= hold then
    free = 0
  else
    free = now + (hold - up) * 1000
  end
  if seen ~= run or redis.call('PTTL', marker) < hold then
    redis.call('SET', marker, run .. ' ' .. string.format('%.0f', free), 'PX', hold + keep)
  end
  if free > now then
    return math.ceil((free - now) / 1000)
  end
  return 0
end
