#!/usr/bin/env python3
"""embed.py OUT.cpp MAPPINGS_DIR: writes one .cpp that holds every mappings/*.json: families, common.json, loaders.json and the proof; not the schema, which is for editors."""
import json
import pathlib
import sys


def literal(path):
    data = path.read_bytes()
    return "std::string_view(k_" + path.stem.replace("-", "_").replace(".", "_") + f", {len(data)})"


def main():
    out, root = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    common, loaders, proof, schema = (root / f"{name}.json" for name in ("common", "loaders", "proof", "schema"))
    families = sorted(p for p in root.glob("*.json") if p not in (common, loaders, proof, schema))
    lines = ['#include "mapping/tables/family.h"', "", "namespace hfshard {", "namespace {"]
    for path in [*families, common, loaders, proof]:
        name = "k_" + path.stem.replace("-", "_").replace(".", "_")
        data = path.read_bytes() if path.exists() else b""
        lines.append(f"const char {name}[] = {{" + "".join(f"{b}," for b in data) + "0};")
    lines.append("}  // namespace")
    lines.append("const std::vector<FamilyFile>& embedded_families() {")
    lines.append("  static const std::vector<FamilyFile> families = {")
    for path in families:
        match = json.dumps(json.loads(path.read_bytes())["match"])
        lines.append(f'    {{"{path.stem}", "mappings/{path.name}", {literal(path)}, {json.dumps(match)}}},')
    lines.append("  };")
    lines.append("  return families;")
    lines.append("}")

    def getter(name, path):
        size = path.stat().st_size if path.exists() else 0
        ident = "k_" + path.stem.replace("-", "_").replace(".", "_")
        lines.append(f"std::string_view {name}() {{ return {{{ident}, {size}}}; }}")

    getter("embedded_common", common)
    getter("embedded_loaders", loaders)
    getter("embedded_proof", proof)
    lines.append("}  // namespace hfshard")
    out.write_text("\n".join(lines) + "\n")


main()
