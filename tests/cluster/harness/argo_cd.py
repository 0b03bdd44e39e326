"""Argo CD's scripts of deploy/argo-cd.yaml, run as Argo CD runs them: by Lua 5.1, with the base functions and no library."""

import json
import shutil
import subprocess

import yaml

from harness import places

LUA = shutil.which("lua5.1")
# Around a script: the object that it reads, no library, and its result as JSON.
PROGRAM = """
local gsub, print = string.gsub, print
local function quoted(text)
  local escaped = gsub(text, '[%c"\\\\]', {{['"'] = '\\\\"', ['\\\\'] = '\\\\\\\\', ['\\n'] = '\\\\n'}})
  return '"' .. escaped .. '"'
end
local function json(value)
  if type(value) ~= 'table' then return type(value) == 'string' and quoted(value) or tostring(value) end
  local elements, members = '', ''
  for _, each in ipairs(value) do elements = elements .. (elements == '' and '' or ',') .. json(each) end
  if elements ~= '' then return '[' .. elements .. ']' end
  for key, each in pairs(value) do members = members .. (members == '' and '' or ',') .. quoted(key) .. ':' .. json(each) end
  return '{{' .. members .. '}}'
end
obj = {job}
string, table, math, io, os, debug, coroutine, package, require, module, loadfile, dofile = nil
local result = (function()
{script}
end)()
print(json(result))
"""


def _data():
    return yaml.safe_load((places.REPOSITORY / "deploy/argo-cd.yaml").read_text(encoding="utf-8"))["data"]


def _literal(value):
    """A JSON value as Lua's literal."""
    if isinstance(value, dict):
        return "{" + ",".join(f"[{_literal(key)}]={_literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ",".join(map(_literal, value)) + "}"
    if isinstance(value, str):
        return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'
    return "nil" if value is None else json.dumps(value)


def _run(script, job):
    ended = subprocess.run([LUA, "-"], input=PROGRAM.format(job=_literal(job), script=script), capture_output=True, text=True, check=False, timeout=10)
    if ended.returncode != 0:
        raise AssertionError(f"the script fails: {ended.stderr}")
    return json.loads(ended.stdout)


def health(job):
    """{status, message} of a TrainingJob."""
    return _run(_data()["resource.customizations.health.trainyard.dev_TrainingJob"], job)


def _actions():
    return yaml.safe_load(_data()["resource.customizations.actions.trainyard.dev_TrainingJob"])


def allowed(job):
    """The actions that a TrainingJob's menu offers now, sorted."""
    return sorted(name for name, each in _run(_actions()["discovery.lua"], job).items() if not each["disabled"])


def act(name, job):
    """The TrainingJob as the action leaves it."""
    script = next(each["action.lua"] for each in _actions()["definitions"] if each["name"] == name)
    return _run(script, job)
