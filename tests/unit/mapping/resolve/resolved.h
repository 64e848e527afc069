#pragma once

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "mapping/resolve/resolve.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {

using Options = std::map<std::string, std::string>;

struct Resolved {
  explicit Resolved(
      std::string_view text, bool stacked = true, const Options& given = {},
      const std::string& config_text = R"({"hidden_size": 7, "num_hidden_layers": 4})")
      : table(load_table(tiny_file(text))),
        config(parse_json(config_text, "config.json")),
        options(given),
        bindings(table, config, options, {}),
        model(resolve(table.schemes[0], bindings, stacked)) {}

  const ResolvedRule* find(const std::string& target) const {
    const auto found = std::ranges::find(model.rules, target, &ResolvedRule::target);
    return found == model.rules.end() ? nullptr : &*found;
  }

  MappingTable table;
  Json config;
  Options options;
  Bindings bindings;
  ResolvedModel model;
};

inline Error resolve_failure(std::string_view text, bool stacked = true) {
  return catch_error([&] { Resolved(text, stacked); });
}

}  // namespace hfshard
