-- Compare and set: a binding replaces an older one, never one that was used later.
-- KEYS: where to write. ARGV: last use in ms, time to live in ms, then one value for each key.
-- A value begins with its own last use; one that does not (garbage, another type) is replaced.
local used = tonumber(ARGV[1])
local stored = 0
for i, key in ipairs(KEYS) do
  local old = redis.pcall('GET', key)
  local last = nil
  if type(old) == 'string' then
    last = tonumber(string.match(old, '^%d+'))
  end
  if last == nil or last <= used then
    redis.call('SET', key, ARGV[i + 2], 'PX', ARGV[2])
    stored = stored + 1
  end
end
return stored
