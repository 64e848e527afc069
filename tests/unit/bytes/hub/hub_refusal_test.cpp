// The meaning of a hub's refusal, and its words.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/hub/hub_client.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

Error refusal_of(int status, const Lines& lines, const std::string& body = {},
                 const std::string& token = {}, const std::string& file = {}) {
  HubOptions options;
  options.endpoint = "http://127.0.0.1:9";
  options.token = token;
  options.token_from = "HF_TOKEN";
  HubAnswer answer;
  answer.status = status;
  for (const auto& [name, value] : lines) answer.headers.add(name, value);
  answer.body = body;
  answer.url = options.endpoint + "/o/m";
  return HubClient(options).refusal(answer, "o/m", "main", file);
}

TEST(HubRefusal, HasTheWordsOfTheAnswer) {
  const auto said = [](const Lines& lines, const std::string& body) {
    return refusal_of(418, lines, body).sentence();
  };
  EXPECT_EQ(said({{"X-Error-Message", "no tea"}}, "coffee"), "status 418: no tea");
  EXPECT_EQ(said({}, R"({"error":"no tea"})"), "status 418: no tea");
  EXPECT_EQ(said({}, R"({"error":["no tea","no milk"]})"), "status 418: no tea");
  EXPECT_EQ(said({}, R"({"error_description":"no tea"})"), "status 418: no tea");
  EXPECT_EQ(said({}, R"({"error":[]})"), R"(status 418: {"error":[]})");
  EXPECT_EQ(said({}, "no tea"), "status 418: no tea");
  EXPECT_EQ(said({{"Content-Type", "text/html"}}, "<p>no tea"), "status 418") << "a page";
  EXPECT_EQ(said({}, ""), "status 418");
  EXPECT_EQ(said({}, std::string(400, 'x')), "status 418: " + std::string(300, 'x'));
  EXPECT_EQ(said({{"X-Request-Id", "7"}}, "no tea"), "status 418: no tea (request 7)");
  EXPECT_EQ(said({}, "a\x1b[31mb").find('\x1b'), std::string::npos);
}

TEST(HubRefusal, IsAnErrorOfItsKind) {
  const auto code = [](const std::string& value) { return Lines{{"X-Error-Code", value}}; };
  const auto kind = [](const Error& error) { return error.code(); };
  EXPECT_EQ(kind(refusal_of(404, code("RevisionNotFound"))), ErrorCode::not_found);
  EXPECT_EQ(refusal_of(404, code("EntryNotFound"), {}, {}, "f").sentence(),
            "o/m has no file \"f\" at this commit");
  EXPECT_EQ(refusal_of(404, {}, {}, {}, "f").sentence(), "o/m has no file \"f\" at this commit");
  EXPECT_EQ(kind(refusal_of(403, code("GatedRepo"))), ErrorCode::access);
  EXPECT_EQ(refusal_of(403, {}, "Access to this resource is disabled.").sentence(),
            "the Hub disabled o/m");
  EXPECT_EQ(kind(refusal_of(404, code("RepoNotFound"))), ErrorCode::not_found);
  EXPECT_EQ(kind(refusal_of(404, {})), ErrorCode::not_found) << "a mirror without codes";
  EXPECT_EQ(kind(refusal_of(404, code("Other"))), ErrorCode::network);
  EXPECT_EQ(kind(refusal_of(401, {})), ErrorCode::not_found) << "as for private models";
  EXPECT_EQ(kind(refusal_of(401, {}, "Invalid credentials in Authorization header", "hf_x")),
            ErrorCode::access);
  EXPECT_EQ(refusal_of(403, {}, "no").sentence(), "the Hub forbids this: no");
  EXPECT_EQ(kind(refusal_of(500, {})), ErrorCode::network);
}

// With a token, its source is named. Without one, HF_TOKEN is.
TEST(HubRefusal, HintsAtTheToken) {
  const auto hint = [](int status, const char* code, const char* token) {
    const Lines lines = *code == '\0' ? Lines{} : Lines{{"X-Error-Code", code}};
    return refusal_of(status, lines, {}, token).hint_text();
  };
  const std::pair<int, const char*> refusals[] = {
      {403, "GatedRepo"}, {404, "RepoNotFound"}, {403, ""}};
  for (const auto& [status, code] : refusals) {
    EXPECT_NE(hint(status, code, "").find("set HF_TOKEN"), std::string::npos) << code;
    EXPECT_NE(hint(status, code, "hf_x").find("token from HF_TOKEN"), std::string::npos) << code;
  }
}

TEST(HubRefusal, SaysWhatTheHubRefused) {
  const std::string hub = "http://127.0.0.1:9";
  const auto code = [](const std::string& value) { return Lines{{"X-Error-Code", value}}; };
  const Error revision = refusal_of(404, code("RevisionNotFound"));
  EXPECT_EQ(revision.sentence(), "o/m has no revision \"main\"");
  EXPECT_EQ(revision.hint_text(), "");
  EXPECT_EQ(revision.file(), hub + "/o/m");
  const Error gated = refusal_of(403, code("GatedRepo"));
  EXPECT_EQ(gated.sentence(), "o/m is gated: you must accept its license");
  EXPECT_EQ(gated.hint_text(), "open " + hub +
                                   "/o/m, accept the license, and set HF_TOKEN to a token of your "
                                   "account");
  EXPECT_EQ(
      refusal_of(403, code("GatedRepo"), {}, "hf_x").hint_text(),
      "open " + hub + "/o/m with the account of the token from HF_TOKEN, and accept the license");
  const Error absent = refusal_of(401, {});
  EXPECT_EQ(absent.sentence(), "o/m isn't a model on " + hub + ", or it is private");
  EXPECT_EQ(absent.hint_text(), "check the name; if the model is private, set HF_TOKEN");
  EXPECT_EQ(refusal_of(404, {}, {}, "hf_x").hint_text(),
            "check the name; the token from HF_TOKEN may lack access to it");
  const Error token = refusal_of(401, {}, "Invalid credentials in Authorization header", "hf_x");
  EXPECT_EQ(token.sentence(), "the Hub refused the token");
  EXPECT_EQ(token.hint_text(), "it came from HF_TOKEN");
  const Error forbidden = refusal_of(403, {});
  EXPECT_EQ(forbidden.sentence(), "the Hub forbids this");
  EXPECT_EQ(forbidden.hint_text(), "set HF_TOKEN to a token with read access");
  EXPECT_EQ(refusal_of(403, {}, {}, "hf_x").hint_text(),
            "the token from HF_TOKEN may lack read access");
  const Error disabled = refusal_of(403, {}, "Access to this resource is disabled.", "hf_x");
  EXPECT_EQ(disabled.code(), ErrorCode::access);
  EXPECT_EQ(disabled.hint_text(), "");
  const Error busy = refusal_of(500, {}, "oops");
  EXPECT_EQ(busy.sentence(), "status 500: oops");
  EXPECT_EQ(busy.hint_text(), "");
}

// With a code, a file that was asked for doesn't matter. Without one, a 404 is for the file.
TEST(HubRefusal, ACodeDecidesBeforeTheStatus) {
  const auto sentence = [](int status, const std::string& code, const std::string& file) {
    const Lines lines = code.empty() ? Lines{} : Lines{{"X-Error-Code", code}};
    return refusal_of(status, lines, {}, {}, file).sentence();
  };
  const std::string no_model = "o/m isn't a model on http://127.0.0.1:9, or it is private";
  EXPECT_EQ(sentence(404, "RepoNotFound", "f"), no_model);
  EXPECT_EQ(sentence(404, "RevisionNotFound", "f"), "o/m has no revision \"main\"");
  EXPECT_EQ(sentence(401, "GatedRepo", "f"), "o/m is gated: you must accept its license");
  EXPECT_EQ(sentence(401, "", "f"), no_model);
  EXPECT_EQ(sentence(404, "Other", "f"), "status 404");
  EXPECT_EQ(sentence(403, "EntryNotFound", "f"), "o/m has no file \"f\" at this commit");
}

TEST(HubRefusal, HasTheFirstIdOfTheRequest) {
  const std::pair<std::string, std::string> hub{"X-Request-Id", "a"};
  const std::pair<std::string, std::string> trace{"X-Amzn-Trace-Id", "b"};
  const std::pair<std::string, std::string> front{"X-Amz-Cf-Id", "c\n"};
  EXPECT_EQ(refusal_of(418, {front, trace, hub}).sentence(), "status 418 (request a)");
  EXPECT_EQ(refusal_of(418, {front, trace}).sentence(), "status 418 (request b)");
  EXPECT_EQ(refusal_of(418, {front}).sentence(), "status 418 (request c\\x0a)");
}

}  // namespace
}  // namespace hfshard
