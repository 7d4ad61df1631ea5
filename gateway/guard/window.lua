-- A sliding window of two fixed ones: the one before counts for the part of it that the window still covers.
-- KEYS: the counter's hash. ARGV: now in ms, window in ms, limit, amount, whether to add beyond the limit (1 or 0).
-- Returns {allowed (1 or 0), used before this (rounded up), ms until there is room}.
local now, window, limit, amount, force = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local start = now - now % window
local stored = redis.call('HMGET', KEYS[1], 's', 'c', 'p')
local began, current, before = tonumber(stored[1]) or start, tonumber(stored[2]) or 0, tonumber(stored[3]) or 0
if began < start then
  before = (began == start - window) and current or 0
  current = 0
end
local used = current + before * (1 - (now - start) / window)
if force == '0' and used + amount > limit and used > 0 then
  local wait = window - (now - start)
  if before > 0 and current + amount <= limit then
    wait = math.ceil((used + amount - limit) / before * window)
  end
  return {0, math.ceil(used), wait}
end
redis.call('HSET', KEYS[1], 's', start, 'c', current + amount, 'p', before)
redis.call('PEXPIRE', KEYS[1], 2 * window)
return {1, math.ceil(used), 0}
