#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hfshard {

/// Returns texts, objects at the top, that both JSON parsers must refuse: the mistake, and the
/// text.
inline std::vector<std::pair<std::string, std::string>> json_rejections() {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  return {
      {"empty", ""},
      {"only white space", "  \n"},
      {"unclosed object", R"({"a":)" + entry},
      {"unclosed string", R"({"a)"},
      {"trailing comma", R"({"a":)" + entry + ",}"},
      {"missing comma", R"({"a":)" + entry + R"("b":)" + entry + "}"},
      {"missing colon", R"({"a")" + entry + "}"},
      {"single quotes", "{'a':1}"},
      {"comment", R"({/**/"a":)" + entry + "}"},
      {"trailing bytes", R"({"a":)" + entry + "} x"},
      {"second document", R"({"a":)" + entry + "}{}"},
      {"trailing NUL", R"({"a":)" + entry + "}" + std::string(1, '\0')},
      {"NUL in a string", "{\"a" + std::string(1, '\0') + "\":" + entry + "}"},
      {"byte order mark", "\xEF\xBB\xBF{\"a\":" + entry + "}"},
      {"raw control byte in a string", "{\"a\x01\":" + entry + "}"},
      {"unknown escape", R"({"a\q":)" + entry + "}"},
      {"bad UTF-8", "{\"a\xff\":" + entry + "}"},
      {"overlong UTF-8", "{\"a\xc0\x80\":" + entry + "}"},
      {"UTF-8 surrogate", "{\"a\xed\xa0\x80\":" + entry + "}"},
      {"lone high surrogate", R"({"a\ud800":)" + entry + "}"},
      {"lone low surrogate", R"({"a\udc00":)" + entry + "}"},
      {"duplicate key", R"({"a":)" + entry + R"(,"a":)" + entry + "}"},
      {"duplicate key by escape", R"({"a":)" + entry + R"(,"\u0061":)" + entry + "}"},
      {"duplicate key inside",
       R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})"},
      {"leading zero", R"({"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}})"},
      {"plus sign", R"({"a":{"dtype":"U8","shape":[+1],"data_offsets":[0,1]}})"},
      {"hexadecimal", R"({"a":{"dtype":"U8","shape":[0x1],"data_offsets":[0,1]}})"},
      {"number with a tail", R"({"a":{"dtype":"U8","shape":[1x],"data_offsets":[0,1]}})"},
      {"not a number", R"({"a":{"dtype":"U8","shape":[nan],"data_offsets":[0,1]}})"},
      {"trailing comma in an array", R"({"a":{"dtype":"U8","shape":[1,],"data_offsets":[0,1]}})"},
      {"mismatched brackets", R"({"a":{"dtype":"U8","shape":[1},"data_offsets":[0,1]}})"},
      {"misspelt literal", R"({"a":nul})"},
  };
}

}  // namespace hfshard
