#!/usr/bin/env python3
"""Prints charts/trainingjob/values.schema.json with the SECTIONS as crds/trainingjob.yaml has them, closed: Helm refuses a field that the API
server would prune. Rules over several fields are left to the API server.
"""

import json
import pathlib

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "charts/trainingjob/values.schema.json"
SECTIONS = ("framework", "training", "runPolicy", "storage", "network", "serve", "elastic")
KEPT = ("type", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern")
WIDTH = 160


def closed(schema):
    made = {key: schema[key] for key in KEPT if key in schema}
    if schema.get("exclusiveMinimum"):
        made["exclusiveMinimum"] = made.pop("minimum")
    if schema.get("exclusiveMaximum"):
        made["exclusiveMaximum"] = made.pop("maximum")
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
    if "properties" in schema:
        made["properties"] = {name: closed(each) for name, each in schema["properties"].items()}
    if "items" in schema:
        made["items"] = closed(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = closed(schema["additionalProperties"])
    elif schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made["additionalProperties"] = False
    return made


def text(value, indent=0):
    """JSON with a line for each member that fits on one."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + len(line) <= WIDTH or not isinstance(value, dict):
        return line
    space = " " * (indent + 2)
    members = (f"{space}{json.dumps(key)}: {text(each, indent + 2)}" for key, each in value.items())
    return "{\n" + ",\n".join(members) + "\n" + " " * indent + "}"


def main():
    crd = yaml.safe_load((ROOT / "crds/trainingjob.yaml").read_text(encoding="utf-8"))
    version = next(each for each in crd["spec"]["versions"] if each["name"] == "v1alpha1")
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["properties"].update({section: closed(spec[section]) for section in SECTIONS})
    print(text(schema))


if __name__ == "__main__":
    main()
