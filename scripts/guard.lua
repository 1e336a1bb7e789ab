-- The restart guard (opt-in, hold > 0: the longest hold of the fleet, in ms).
-- Returns for how many more ms this node must not vote on the name: it may have
-- forgotten a grant that is still live. A marker with the run_id last seen tells
-- a node that was restarted with its (perhaps old) data; where there is no
-- marker, only a node that has been up for a whole hold can have forgotten
-- nothing that is live.
local function quarantine(marker, hold, now, keep)
  local info = redis.call('INFO', 'server')
  local run = string.match(info, 'run_id:(%w+)')
  -- Seconds begun since that of the start: one more than has passed, at the most.
  -- Negative where the node's clock was set back behind its start.
  local up = (tonumber(string.match(info, 'uptime_in_seconds:(-?%d+)')) - 1) * 1000
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
