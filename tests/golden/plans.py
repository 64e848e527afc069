#!/usr/bin/env python3
"""Plans every published model and many odd ones, and compares all that `plan` says with plans.txt.

A published model is one that a mapping lists under `sizes`, or one of tests/oracle/hub. An odd one is the small example of a
family whose config.json has one other value (VARIANTS), or one of family_variants.py. Each is planned for every scheme of its family, stacked and
separate. plans.txt has the arguments for the loader, notes, warnings, reasons of drops, and errors. For an odd one, it has
only the lines that the example doesn't have (+) and those that only the example has (-).

So a note, a warning or an argument that appears, vanishes or changes is seen, with its condition. The values come from
hfshard itself. next_words.py and torchtitan_words.py give them to MaxText and torchtitan.

trees.txt has a digest of the arrays that each plan makes (names, dtypes, shapes and axes), where a variant's differ. Of a
model itself, it also has a digest of the rules that apply. A digest says only that something changed: compare what
`plan --json` and `mappings show --json` say before and after.

`--update` writes both lists again. Read every line of the difference: it is what users will read.
"""

import argparse
import collections
import concurrent.futures
import difflib
import hashlib
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "interop"))
import family_variants  # noqa: E402
import interop  # noqa: E402
import next_words  # noqa: E402
import oracle_dirs  # noqa: E402
import stored_otherwise  # noqa: E402

LIST = os.path.join(HERE, "plans.txt")
TREES = os.path.join(HERE, "trees.txt")
HUB = os.path.join(interop.ORACLE, "hub")
SCHEMES = {"stacked": [], "separate": ["--layers", "separate"], "torchtitan": ["--scheme", "torchtitan"],
           "modules": ["--scheme", "hf", "--dialect", "modules"]}
# They have their own lines, and don't show only what the first form lacks.
OTHERS = ("torchtitan", "modules")
# A variant is planned for them only if it names one.
LEFT_OUT = ("separate", "modules")
# `parts` are those that --with can name.
Model = collections.namedtuple("Model", "name family config parts schemes variants")
# `reshaped` if other tensors belong to the config. `options` are for `plan`. `stored` is for stored_otherwise.py.
Variant = collections.namedtuple("Variant", "name config reshaped schemes parts options stored")
YARN = family_variants.YARN
BETWEEN = {**YARN, "factor": 2.5, "beta_fast": 31.5, "beta_slow": 1.5}  # between whole numbers
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
# One other value of config.json: a key, dotted, and its value. FLIP negates a boolean, MORE adds one. A key that the example
# lacks is added. None removes a key.
FLIP, MORE = object(), object()
# It begins like a model's usual pattern.
BROKEN = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
VARIANTS = [
    ("tie_word_embeddings", FLIP), ("attention_bias", FLIP), ("mlp_bias", FLIP), ("use_bias", FLIP), ("qkv_bias", FLIP),
    ("vocab_size", MORE), ("num_hidden_layers", MORE), ("head_dim", None), ("num_key_value_heads", None),
    ("hidden_act", "gelu"), ("hidden_act", "relu"), ("hidden_activation", "silu"),
    ("rope_theta", 12345.0), ("rope_theta", 1234.5), ("rms_norm_eps", 0.001), ("max_position_embeddings", 4096),
    ("rope_scaling", {"rope_type": "linear", "factor": 2.0}), ("rope_scaling", {"rope_type": "dynamic", "factor": 2.0}),
    ("rope_scaling", YARN), ("rope_scaling", BETWEEN), ("rope_scaling", LLAMA3), ("rope_parameters", {"rope_type": "default", "rope_theta": 777.0}),
    ("partial_rotary_factor", 0.5), ("rope_interleave", False), ("rope_interleave", True),
    ("sliding_window", 7), ("sliding_window", None), ("use_sliding_window", True), ("layer_types", None), ("layer_types", BROKEN),
    ("final_logit_softcapping", 11.0), ("attn_logit_softcapping", 13.0), ("query_pre_attn_scalar", 17),
    ("norm_topk_prob", FLIP), ("num_experts_per_tok", 1), ("routed_scaling_factor", 3.5), ("scoring_func", "softmax"),
    ("scoring_func", "sigmoid"), ("topk_method", "greedy"), ("n_group", None), ("topk_group", None), ("n_shared_experts", None),
    ("hc_sinkhorn_iters", 7), ("hc_eps", 0.5),
    ("moe_intermediate_size", MORE), ("intermediate_size", MORE), ("decoder_sparse_step", 2), ("first_k_dense_replace", 0),
    ("use_qk_norm", FLIP), ("attn_temperature_tuning", FLIP), ("attention_dropout", 0.1), ("clip_qkv", 8.0),
    ("swiglu_limit", 3.0), ("num_nextn_predict_layers", 1), ("num_kv_shared_layers", 1), ("attention_k_eq_v", FLIP),
    ("logit_scale", 0.5), ("embedding_multiplier", 2.0), ("residual_multiplier", 0.5), ("attention_multiplier", 0.25),
]
# The keys that change the tensors of an example.
RESHAPES = {"tie_word_embeddings", "attention_bias", "mlp_bias", "use_bias", "qkv_bias", "vocab_size", "num_hidden_layers",
            "head_dim", "num_key_value_heads", "layer_types", "topk_method", "n_shared_experts", "moe_intermediate_size",
            "intermediate_size", "decoder_sparse_step", "first_k_dense_replace", "use_qk_norm", "num_nextn_predict_layers",
            "num_kv_shared_layers", "attention_k_eq_v", "hidden_size", "model_type", "index_n_heads", "config.quantization_config"}
# What the digests cover. The place of a rule in its file isn't there.
ARRAY = ("path", "dtype", "shape", "axes")
RULE = ("source", "source_pattern", "source_shape", "target", "target_pattern", "target_shape", "value", "count", "axes")
# Begins a line for trees.txt.
TREE, RULES = "makes ", "has "
# Checkpoints with tensors that no example has.
STORED = {os.path.join(interop.HERE, os.pardir, "torchtitan", "deepseek_v3"): [[], ["--with", "mtp"]]}
LEAST_MODELS, LEAST_VARIANTS = 100, 900


def planned(tool, source, options):
    """Returns what `plan` says, line by line."""
    done = tool.run_any("plan", source, "--to", "null", "--json", "--quiet", *options)
    report = json.loads(done.stdout)
    if done.returncode != 0:
        error = report["error"]
        where = [f"{key}: {error[key]}" for key in ("tensor", "rule", "hint") if error.get(key)]
        return [f"error {error['code']}: {error['message']}", *where]
    drops = {}
    for drop in report["drops"]:
        drops[drop["why"]] = drops.get(drop["why"], 0) + 1
    return [*(f"next {word}" for word in report["load_words"]),
            *([f"of next: {report['load_note']}"] if report.get("load_note") else []),
            *(f"note: {text}" for text in report["notes"]), *(f"warning: {text}" for text in report["warnings"]),
            *(f"left out: {count} x {why}" for why, count in drops.items()),
            f"{TREE}{len(report['leaves'])} arrays of {report['tensors']} tensors: {digest(report['leaves'], ARRAY)}"]


def digest(rows, keys):
    """Returns a short hash of some members of each row."""
    text = json.dumps([[row[key] for key in keys] for row in rows])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def ruled(tool, model, source):
    """Returns a line for each form: a digest of the rules that apply to a config, whatever tensors there are."""
    lines = []
    for form, options in forms_of(model.schemes, model.parts) + chosen_forms(model.family, model.schemes):
        show = ["mappings", "show", model.family, "--config", os.path.join(source, "config.json"), "--json", *options]
        done = tool.run_any(*show)
        if done.returncode != 0 and form.startswith("with "):
            done = tool.run_any(*show, *SCHEMES["separate"])
        if done.returncode == 0:
            rules = json.loads(done.stdout)["rules"]
            lines.append(f"{form}: {RULES}{len(rules)} rules: {digest(rules, RULE)}")
    return lines


def needs_separate(form, said):
    """Returns whether a form with a part was refused because its layers can't be stacked."""
    return form.startswith("with ") and said[0].startswith("error ") and "hint: --layers separate" in said


def forms_of(schemes, parts):
    """Returns the name and the options of each form."""
    return [(scheme, SCHEMES[scheme]) for scheme in schemes] + [(f"with {part}", ["--with", part]) for part in parts]


def chosen_forms(family, schemes):
    """Returns those for each value of an option that makes other trees."""
    has = oracle_dirs.read_json(next_words.MAPPINGS, f"{family}.json").get("schemes", {})
    out = []
    for scheme in schemes:
        forms = has[name_of(scheme)].get("forms", {})
        out += [(f"{scheme} {option}={value}", [*SCHEMES[scheme], "--option", f"{option}={value}"])
                for option, values in forms.items() for value in values]
    return out


def name_of(form):
    """Returns the scheme of a mapping in which a form is."""
    return SCHEMES[form][-1] if form in OTHERS else "maxtext"


def described(tool, source, schemes, parts, more=()):
    """Returns what `plan` says of a source for each scheme, and with each part. Most forms say what the first does."""
    lines, first = [], None
    for form, options in forms_of(schemes, parts):
        said = planned(tool, source, [*options, *more])
        if needs_separate(form, said):
            said += planned(tool, source, [*options, *SCHEMES["separate"], *more])
        if first is None or form in OTHERS:
            lines += [f"{form}: {line}" for line in said]
            first = first or said
            continue
        lines += [f"{form}: {line}" for line in said if line not in first]
        lines += [f"{form}: not {line}" for line in first if line not in said and not line.startswith(TREE)]
    return lines


def make_example(tool, model, source):
    """Returns nothing, or the reason why there is no example."""
    os.makedirs(source)
    written = f"{source}.json"
    with open(written, "w", encoding="utf-8") as file:
        json.dump(model.config, file)
    example = ["mappings", "example", model.family, source, "--config", written, "--sparse", "--quiet"]
    done = tool.run_any(*example, *(["--with", ",".join(model.parts)] if model.parts else []))
    if done.returncode != 0 and model.parts:
        done = tool.run_any(*example)
    os.remove(written)
    return done.stderr.splitlines()[0].removeprefix("hfshard: ") if done.returncode != 0 else ""


def facts_of(tool, model, source):
    """Returns what `plan` says of a model and of its variants: [(name, lines)]."""
    refused = make_example(tool, model, source)
    base = [f"example: {refused}"] if refused else described(tool, source, model.schemes, model.parts)
    rules = [] if refused else ruled(tool, model, source)
    out = [(model.name, base + rules)]
    for variant in model.variants:
        refused = ""
        if variant.reshaped:
            shutil.rmtree(source)
            refused = make_example(tool, model._replace(config=variant.config, parts=variant.parts), source)
            if variant.stored and not refused:
                stored_otherwise.store(source, variant.stored)
        with open(os.path.join(source, "config.json"), "w", encoding="utf-8") as file:
            json.dump(variant.config, file)
        lines = [f"example: {refused}"] if refused else described(tool, source, variant.schemes, (), variant.options)
        if variant.parts and not refused:
            lines += ruled(tool, model._replace(schemes=variant.schemes, parts=variant.parts), source)
        kept = [line for line in base if belongs(line, variant.schemes) and not of_tree(line)]
        trees = [line for line in lines if of_tree(line) and line not in base]
        out.append((variant.name, [*differing(kept, [line for line in lines if not of_tree(line)]), *trees]))
    shutil.rmtree(source)
    return [(name, [line.replace(source, "SOURCE") for line in lines]) for name, lines in out]


def of_tree(line):
    """Returns whether a line is for trees.txt."""
    return line.partition(": ")[2].startswith((TREE, RULES))


def belongs(line, schemes):
    """Returns whether a line of a model is about one of these schemes, or about all."""
    form = line.partition(":")[0]
    return form in schemes or form == "example"


def differing(base, lines):
    """Returns the lines that differ. Of a form that is refused, only what is said of that."""
    refused = {line.partition(":")[0] for line in lines if ": error " in line or line.startswith("example: ")}
    out = [line for line in difflib.ndiff(base, lines) if line[0] in "+-"]
    return [line for line in out
            if line[0] == "+" or not refused & {line[2:].partition(":")[0], "example"}]


def towers(config):
    inside = {**config, **config.get("thinker_config", {})}
    return [tower for tower in ("vision", "audio") if f"{tower}_config" in inside]


def published(tool):
    schemes = schemes_of_families()
    families = family_of_type(tool)
    for file in sorted(name for name in os.listdir(next_words.MAPPINGS) if name.endswith(".json")):
        sizes = oracle_dirs.read_json(next_words.MAPPINGS, file).get("sizes", {"models": {}})
        for name, facts in next_words.listed_models(sizes):
            config = next_words.nested(facts)
            yield with_variants(Model(name, file.removesuffix(".json"), config, towers(config),
                                      schemes[file.removesuffix(".json")], []))
    for file in sorted(name for name in os.listdir(HUB) if name.endswith(".json")):
        config = oracle_dirs.read_json(HUB, file)
        config = config.get("config", config)
        family = families.get(config.get("model_type"), "llama")
        yield with_variants(Model(f"hub {file.removesuffix('.json')}", family, config, towers(config), schemes[family], []))


def family_of_type(tool):
    listed = tool.json("mappings", "list")["families"]
    return {model_type: family["name"] for family in listed for model_type in family["model_types"]}


def schemes_of_families():
    """Returns family -> the schemes of SCHEMES that it has."""
    out = {}
    for file in os.listdir(next_words.MAPPINGS):
        if file.endswith(".json"):
            has = oracle_dirs.read_json(next_words.MAPPINGS, file).get("schemes", {})
            out[file.removesuffix(".json")] = [
                form for form in SCHEMES if name_of(form) in has]
    return out


def text_of(config):
    """Returns the part of a config.json with the text's sizes."""
    inside = config.get("thinker_config", config)
    return inside.get("text_config", inside)


def changed(config, key, value):
    """Returns a copy with one other value, or None if that changes nothing."""
    config = json.loads(json.dumps(config))
    at = text_of(config)
    if value is FLIP:
        at[key] = not at.get(key, False)
    elif value is MORE:
        if not isinstance(at.get(key), int):
            return None
        at[key] += 1
    elif value is None:
        if key not in at:
            return None
        del at[key]
    elif at.get(key) == value:
        return None
    else:
        at[key] = value
    return config


def odd(tool):
    """Returns the example of each family, with its variants."""
    schemes = schemes_of_families()
    for family in sorted(set(family_of_type(tool).values())):
        source = tool.path(f"example-{family}")
        tool.run("mappings", "example", family, source, "--quiet")
        config = oracle_dirs.read_json(source, "config.json")
        shutil.rmtree(source)
        others = ((key, changed(config, key, value)) for key, value in VARIANTS)
        forms = [form for form in schemes[family] if form not in LEFT_OUT]
        variants = [Variant(f"{family} {key}={json.dumps(text_of(other).get(key), sort_keys=True)}", other, key in RESHAPES, forms, (), (), None)
                    for key, other in others if other is not None]
        variants.append(Variant(f"{family} of f32 --dtype bf16", config, True, forms, (), ("--dtype", "bf16"), {"wide": True}))
        yield with_variants(Model(family, family, config, (), schemes[family], variants))


def with_variants(model):
    """Returns a model with those of FAMILY_VARIANTS that are its own. The ones that replace its tensors come last."""
    own = [variant_of(model, changes) for changes in family_variants.FAMILY_VARIANTS.get(model.name, [])]
    return model._replace(variants=sorted([*model.variants, *own], key=lambda variant: variant.reshaped))


def variant_of(model, changes):
    config = json.loads(json.dumps(model.config))
    keys = [key for key in changes if key not in ("only", "stored") and not key.startswith("--")]
    for key in keys:
        at = config.get("thinker_config", config) if key.startswith("config.") else text_of(config)
        if changes[key] is None:
            at.pop(key.removeprefix("config."), None)
        else:
            at[key.removeprefix("config.")] = changes[key]
    options = [word for key, value in changes.items() if key.startswith("--") for word in (key, value)]
    said = [f"{key}={json.dumps(changes[key], sort_keys=True)}" for key in keys] + options
    said += ["as modules"] if changes.get("only") == "modules" else []
    said += [f"stored {json.dumps(changes['stored'])}"] if "stored" in changes else []
    parts = [changes["--with"]] if "--with" in changes else ()
    schemes = [changes["only"]] if "only" in changes else [form for form in model.schemes if form not in LEFT_OUT]
    reshaped = bool(parts) or "stored" in changes or bool(RESHAPES & set(keys))
    return Variant(" ".join([model.name, *said]), config, reshaped, schemes, parts, options, changes.get("stored"))


def all_facts(tool):
    """Returns name -> lines."""
    models = [*published(tool), *odd(tool)]
    tool.expect(len(models) >= LEAST_MODELS, f"only {len(models)} models")
    variants = sum(len(model.variants) for model in models)
    tool.expect(variants >= LEAST_VARIANTS, f"only {variants} variants")
    out = {}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for facts in pool.map(lambda task: facts_of(tool, task[1], tool.path(f"m{task[0]}")), enumerate(models)):
            names = [name for name, _ in facts]
            twice = [name for name in names if name in out or names.count(name) > 1]
            tool.expect(not twice, f"two configs have one name: {twice}")
            out.update(facts)
    for source, forms in STORED.items():
        for options in forms:
            name = " ".join([f"stored {os.path.basename(source)}", *options])
            out[name] = described(tool, source, ["torchtitan"], (), options)
    return out


def joined(lines):
    """Returns the lines, with consecutive ones of one kind in one: `stacked: next A`, `stacked: next B` is `stacked: next A B`."""
    out, last = [], None
    for line in lines:
        head, found, word = line.partition(" next ")
        if found and head == last:
            out[-1] += f" {word}"
        else:
            out.append(line)
        last = head if found else None
    return out


def text_of_list(facts):
    """Returns the list's text. Configs that change the same lines are one block."""
    blocks = {}
    for name, lines in facts.items():
        if lines:
            blocks.setdefault("\n".join(f"  {line}" for line in joined(lines)), []).append(name)
    return "".join(f"{', '.join(names)}\n{lines}\n" for lines, names in blocks.items())


def lists_of(facts):
    """Returns path -> text of the two lists."""
    plans = {name: [line for line in lines if not of_tree(line)] for name, lines in facts.items()}
    trees = "".join(f"{name}\n" + "".join(f"  {line}\n" for line in lines if of_tree(line))
                    for name, lines in facts.items() if any(map(of_tree, lines)))
    return {LIST: text_of_list(plans), TREES: trees}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--update", action="store_true", help="writes plans.txt and trees.txt")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hfshard-plans-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        facts = all_facts(tool)
        for path, now in lists_of(facts).items():
            if arguments.update:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(now)
                continue
            with open(path, encoding="utf-8") as file:
                before = file.read()
            tool.expect(before == now, "what plan says differs (--update writes it):\n" + "\n".join(list(difflib.unified_diff(
                before.splitlines(), now.splitlines(), os.path.basename(path), "now", lineterm="", n=3))[:200]))
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
