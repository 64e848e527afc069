#include "mapping/tables/mtp_layers.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

std::string config_without(const char* config, const std::vector<std::string>& names) {
  const auto found = without_mtp(parse_json(config, "config.json"), names);
  return found ? found->key + " " + dump_json(found->config) : "";
}

TEST(WithoutMtp, CountsOfLayersThatAreNotThereAreZero) {
  EXPECT_EQ(config_without(R"({"num_nextn_predict_layers": 1, "b": 2})", {"model.norm.weight"}),
            R"(num_nextn_predict_layers {"b":2,"num_nextn_predict_layers":0})");
  EXPECT_EQ(config_without(R"({"text_config": {"mtp_num_hidden_layers": 1}})", {}),
            R"(mtp_num_hidden_layers {"text_config":{"mtp_num_hidden_layers":0}})");
  EXPECT_EQ(config_without(R"({"mtp_num_hidden_layers": 1, "num_nextn_predict_layers": 2})", {}),
            R"(mtp_num_hidden_layers {"mtp_num_hidden_layers":0,"num_nextn_predict_layers":0})");
}

TEST(WithoutMtp, WhereTheyAreOrNoneAreCountedTheConfigStays) {
  constexpr const char* kOne = R"({"num_nextn_predict_layers": 1})";
  for (const char* name : {"mtp.layers.0.norm.weight", "model.mtp.0.norm.weight",
                           "model.layers.61.eh_proj.weight", "language_model.mtp.fc.weight"})
    EXPECT_EQ(config_without(kOne, {"model.norm.weight", name}), "") << name;
  for (const char* config :
       {"{}", R"({"num_nextn_predict_layers": 0})", R"({"num_nextn_predict_layers": null})", "[1]"})
    EXPECT_EQ(config_without(config, {}), "") << config;
}

}  // namespace
}  // namespace hfshard
