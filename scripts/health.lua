-- Written for Argo CD: the health of an object of Lanloom's by its conditions, as kstatus reads them.
local health = {status = "Progressing", message = "Lanloom has not looked at it yet"}
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "it is being deleted"
  return health
end
local status = obj.status or {}
local generation = obj.metadata.generation
if generation ~= nil and status.observedGeneration ~= nil and status.observedGeneration < generation then
  return health
end
local found = {}
for _, condition in ipairs(status.conditions or {}) do
  found[condition.type] = condition
end
-- A ClusterNetwork has Harvester's condition `ready`, and L3Ready beside it.
local ready = found["Ready"] or found["ready"]
if ready ~= nil and ready.status == "True" and found["Ready"] == nil then
  ready = found["L3Ready"] or ready
end
if ready == nil then
  return health
end
local words = {}
for _, word in ipairs({ready.reason or "", ready.message or ""}) do
  if word ~= "" then
    table.insert(words, word)
  end
end
health.message = table.concat(words, ": ")
local passing = {PASSING}
if ready.status == "True" then
  health.status = "Healthy"
elseif found["Stalled"] ~= nil and found["Stalled"].status == "True" then
  health.status = "Degraded"
elseif found["Ready"] == nil and not passing[ready.reason] then
  health.status = "Degraded"
end
return health
