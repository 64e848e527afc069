#include "bytes/hub/hub_answers.h"

#include <gtest/gtest.h>

#include "support/catch_error.h"

namespace hfshard {
namespace {

using std::chrono::seconds;

HttpHeaders headers_of(const std::vector<std::pair<std::string, std::string>>& lines) {
  HttpHeaders out;
  for (const auto& [name, value] : lines) out.add(name, value);
  return out;
}

TEST(RedirectOf, LeadsToHttpOnlyAndNeverDownFromHttps) {
  const auto lead = [](const std::string& from, const std::string& to) {
    return redirect_of(from, headers_of({{"Location", to}}));
  };
  EXPECT_EQ(lead("https://h/a/b", "../c").url, "https://h/c");
  EXPECT_EQ(lead("http://h/a", "https://other/c").url, "https://other/c");
  EXPECT_EQ(lead("http://h/a", "https://other/c").problem, "");
  EXPECT_EQ(lead("https://h/a", "http://h/a").url, "");
  EXPECT_EQ(lead("https://h/a", "http://h/a?Signature=s").problem,
            "redirects from https to \"http://h/a\"");
  for (const char* none : {"", "file:///x", "https://u:p@h/", "data:,x"}) {
    EXPECT_EQ(lead("https://h/a", none).url, "") << none;
    EXPECT_TRUE(lead("https://h/a", none).problem.ends_with("which isn't an HTTP address")) << none;
  }
  EXPECT_NE(redirect_of("https://h/a", {}).problem, "");
  EXPECT_NE(lead("nowhere", "https://h/a").problem, "");
}

TEST(LifeOfUrl, IsByTheClockOfTheAnswer) {
  const HttpHeaders dated = headers_of({{"Date", "Thu, 01 Jan 2026 00:00:00 GMT"}});
  EXPECT_EQ(life_of_url("https://d/x?Expires_in=5&Expires=1767229200", dated), seconds(3600));
  EXPECT_EQ(life_of_url("https://d/x?Expires=1767229200&Signature=s", dated), seconds(3600));
  EXPECT_EQ(life_of_url("https://d/x?Expires=1767225590", dated), seconds(-10));
  EXPECT_EQ(
      life_of_url("https://d/x?X-Amz-Date=20260101T000100Z&X-Amz-Expires=600&X-Amz-Signature=s",
                  dated),
      seconds(660));
  for (const char* unsaid :
       {"https://d/x", "https://d/x?Expires=soon",
        "https://d/x?Expires=", "https://d/x?X-Amz-Expires=600", "https://d/x?AExpires=1767229200",
        "https://d/x?X-Amz-Date=now&X-Amz-Expires=600",
        "https://d/x?X-Amz-Date=20260101T000100Z&X-Amz-Expires=soon",
        "https://d/x?X-Amz-Date=20260101T000100Z", "https://d/x?Explore=1767229200",
        "https://d/x?Expires=123456789012"}) {
    EXPECT_EQ(life_of_url(unsaid, dated), seconds(900)) << unsaid;
  }
}

TEST(LifeOfUrl, EndsInTheFutureOfThisClockHoweverLongItIs) {
  const auto now = std::chrono::steady_clock::now();
  EXPECT_GT(now + life_of_url("https://d/x?Expires=99999999999", {}), now);
  const HttpHeaders late = headers_of({{"Date", "Fri, 31 Dec 9999 23:59:59 GMT"}});
  EXPECT_LT(now + life_of_url("https://d/x?Expires=1", late), now);
}

TEST(RangeProblem, TakesTheRangeThatWasAskedForAndNoOther) {
  const auto of = [](int status, const std::vector<std::pair<std::string, std::string>>& lines,
                     ByteRange want = {5, 10}, bool of_hub = false) {
    return range_problem(status, headers_of(lines), want, 20, of_hub);
  };
  EXPECT_EQ(of(206, {{"Content-Range", "bytes 5-9/20"}}), "");
  EXPECT_EQ(of(200, {{"Content-Length", "20"}}, {0, 20}), "");
  EXPECT_EQ(of(200, {}, {0, 20}), "");
  EXPECT_EQ(of(200, {{"Content-Length", "19"}}, {0, 20}),
            "the server sent 19 bytes, and the listing says 20");
  EXPECT_EQ(of(200, {}), "the server sent the whole file instead of a range");
  EXPECT_EQ(of(200, {}, {0, 10}), "the server sent the whole file instead of a range");
  EXPECT_EQ(of(200, {}, {5, 20}), "the server sent the whole file instead of a range");
  EXPECT_EQ(of(206, {}), "the server sent another range: it names none, not bytes 5-9/20");
  for (const char* other : {"bytes 4-9/20", "bytes 5-10/20", "bytes 5-9/21", "bytes 5-9/*",
                            "bytes */20", "5-9/20", "bytes 5-9/20 ", "bytes 5-9", "bytes -9/20",
                            "bytes 5-9/20, 11-12/20", "", "bytes 18446744073709551621-9/20"}) {
    EXPECT_NE(of(206, {{"Content-Range", other}}), "") << other;
  }
  const std::pair<std::string, std::string> right{"Content-Range", "bytes 5-9/20"};
  EXPECT_EQ(of(206, {right, {"Content-Encoding", "identity"}}), "");
  EXPECT_EQ(of(206, {right, {"Content-Encoding", "gzip"}}),
            "the server sent compressed bytes (gzip)");
  EXPECT_NE(of(206, {right, {"Content-Type", "multipart/byteranges; boundary=x"}}), "");
  EXPECT_NE(of(200, {{"Content-Type", "text/html"}}, {0, 20}), "");
  EXPECT_EQ(of(200, {{"Content-Type", "text/html"}}, {0, 20}, true), "");  // a file of a hub
}

TEST(ListedFiles, AreFilesWithTheirSizesAndDigests) {
  const std::string oid(40, '0');
  const std::string sha256(64, '2');
  const auto files =
      listed_files(parse_json(R"([{"type": "directory", "path": "sub"},
      {"type": "file", "path": "a", "size": 3, "oid": ")" +
                                  oid + R"("},
      {"type": "file", "path": "c", "size": 4, "oid": null, "lfs": null, "xetHash": null},
      {"type": "file", "path": "sub/b", "size": 134, "oid": ")" +
                                  oid + R"(", "lfs": {"oid": ")" + sha256 +
                                  R"(", "size": 99}, "xetHash": ")" + sha256 + R"("}])",
                              "page"));
  EXPECT_EQ(files,
            (std::vector<TreeFile>{
                {"a", 3, oid, "", ""}, {"c", 4, "", "", ""}, {"sub/b", 99, oid, sha256, sha256}}));
  for (const char* none :
       {"{}", "[1]", R"([{"path": "a", "size": 1}])", R"([{"type": "file", "size": 1}])",
        R"([{"type": "file", "path": "a", "size": -1}])",
        R"([{"type": "file", "path": "a", "size": 1, "lfs": {"oid": "x", "size": 1}}])",
        R"([{"type": "file", "path": "a", "size": 1, "xetHash": "x"}])"}) {
    EXPECT_EQ(catch_error([&] { listed_files(parse_json(none, "page")); }).code(),
              ErrorCode::bad_input)
        << none;
  }
}

TEST(NextPage, IsTheLinkThatIsCalledNext) {
  EXPECT_EQ(next_page(headers_of({{"Link", R"(<https://h/p?2>; rel="next")"}})), "https://h/p?2");
  EXPECT_EQ(next_page(headers_of({{"Link", R"(<a>; rel="prev", <b>; rel="next")"}})), "b");
  EXPECT_EQ(next_page(headers_of({{"Link", R"(<a>; rel="x")"}, {"Link", R"(<b>; rel="next")"}})),
            "b");
  for (const char* none :
       {"", "<", "<a", R"(rel="next")", R"(<a>; rel="last")", R"(>; rel="next")"})
    EXPECT_FALSE(next_page(headers_of({{"Link", none}}))) << none;
  EXPECT_FALSE(next_page({}));
}

}  // namespace
}  // namespace hfshard
