#include "mapping/tables/schema.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/json.h"
#include "bytes/local/files.h"
#include "support/test_data.h"

namespace hfshard {
namespace {

// mappings/schema.json is for editors; the loader decides. They must have the same keys.
TEST(MappingSchema, NamesTheKeysThatTheLoaderAccepts) {
  const Json schema =
      parse_json(read_file(test_data("../mappings/schema.json")), "mappings/schema.json");
  for (const Block block : all_blocks()) {
    SCOPED_TRACE(std::string(to_string(block)));
    const Json& definition = schema.at("$defs").at(to_string(block));
    std::set<std::string> accepted;
    std::set<std::string> required;
    for (const BlockKey& key : block_keys(block)) {
      accepted.emplace(key.name);
      if (key.required) required.emplace(key.name);
    }
    std::set<std::string> described;
    for (const auto& [name, value] : definition.at("properties").as_object())
      described.insert(name);
    EXPECT_EQ(described, accepted);
    std::set<std::string> demanded;
    if (const Json* list = definition.find("required")) {
      for (const Json& name : list->as_array()) demanded.insert(name.as_string());
    }
    EXPECT_EQ(demanded, required);
    const bool open = definition.at("additionalProperties").is_object();
    EXPECT_EQ(open, block == Block::scheme);
  }
}

}  // namespace
}  // namespace hfshard
