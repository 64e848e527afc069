#include "bytes/hub/hub_listing.h"

#include <atomic>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bytes/hub/hub_client.h"
#include "support/catch_error.h"
#include "unit/bytes/hub/one_answer.h"

namespace hfshard {
namespace {

// Returns a page with one file, or none for an empty name, and a link to the next page.
std::string page_of(const std::string& file, const std::string& next) {
  return json_answer(
      file.empty() ? std::string("[]")
                   : fmt::format(R"([{{"type":"file","path":"{}","size":1,"oid":"x"}}])", file),
      next.empty() ? std::string() : fmt::format("Link: <{}>; rel=\"next\"\r\n", next));
}

std::vector<std::string> listed_names(const OneAnswer& hub) {
  HubClient client(options_of(hub));
  std::vector<std::string> out;
  for (const TreeFile& file : list_files(client, {"o/m", std::string(40, 'a')}))
    out.push_back(file.path);
  return out;
}

TEST(HubClient, AListingOfPagesWithoutEndIsGivenUp) {
  for (const bool empty : {true, false}) {
    SCOPED_TRACE(empty);
    const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
      say(json_answer(
          empty ? std::string("[]")
                : fmt::format(R"([{{"type":"file","path":"f{}","size":1,"oid":"x"}}])", number),
          fmt::format("Link: </page?cursor={}>; rel=\"next\"\r\n", number)));
    });
    HubClient client(options_of(hub));
    const Error error = catch_error([&] { list_files(client, {"o/m", std::string(40, 'a')}); });
    EXPECT_EQ(error.code(), ErrorCode::network) << error.format();
    EXPECT_EQ(error.sentence(),
              empty ? "the listing has 3 pages without a file in a row and doesn't end"
                    : "the listing has 2000 pages and doesn't end");
    EXPECT_EQ(error.hint_text(), "the server isn't a Hub; check HF_ENDPOINT");
    EXPECT_EQ(hub.asked(), empty ? 3 : 2000);
  }
}

TEST(HubClient, EmptyPagesBetweenOthersEndNoListing) {
  constexpr int kPages = 10;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    say(page_of(number % 2 == 0 ? fmt::format("f{}", number) : std::string(),
                number < kPages ? fmt::format("/page?cursor={}", number) : std::string()));
  });
  EXPECT_EQ(listed_names(hub), (std::vector<std::string>{"f2", "f4", "f6", "f8", "f10"}));
}

// A mirror passes on the links of the original hub.
TEST(HubClient, TheNextPageComesFromTheEndpointWhicheverHubTheLinkNames) {
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    say(page_of(fmt::format("f{}", number),
                number == 1 ? "https://huggingface.co/api/models/o/m/tree/x?cursor=1" : ""));
  });
  EXPECT_EQ(listed_names(hub), (std::vector<std::string>{"f1", "f2"}));
  const OneAnswer astray([&](int number, const OneAnswer::Say& say) {
    say(page_of(fmt::format("f{}", number), "https://example.org/api?cursor=1"));
  });
  const Error error = catch_error([&] { listed_names(astray); });
  EXPECT_EQ(error.code(), ErrorCode::network);
  EXPECT_NE(error.sentence().find("example.org"), std::string::npos) << error.sentence();
  EXPECT_EQ(astray.asked(), 1);
}

TEST(HubClient, TheNextPageOfAnEndpointWithAPathIsBelowThatPath) {
  const std::string own = "/hf/api/models/o/m/tree/x?cursor=1";
  const auto asked = [](const std::string& link) {
    std::vector<std::string> out;
    const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
      out.push_back(say.request().substr(4, say.request().find(' ', 4) - 4));
      const std::size_t host = say.request().find("Host: ") + 6;
      const std::string endpoint =
          "http://" + say.request().substr(host, say.request().find("\r\n", host) - host);
      const std::string next = link.starts_with('+') ? endpoint + link.substr(1) : link;
      say(page_of(fmt::format("f{}", number), number == 1 ? next : std::string()));
    });
    HubOptions options = patient_options(hub);
    options.endpoint += "/hf/";
    HubClient client(options);
    EXPECT_EQ(list_files(client, {"o/m", std::string(40, 'a')}).size(), 2U);
    return out;
  };
  const std::string first =
      "/hf/api/models/o/m/tree/" + std::string(40, 'a') + "?recursive=true&expand=false";
  const std::vector<std::string> pages{first, own};
  EXPECT_EQ(asked(own), pages);
  EXPECT_EQ(asked("+" + own), pages) << "a whole URL";
  EXPECT_EQ(asked("https://huggingface.co/api/models/o/m/tree/x?cursor=1"), pages);
}

TEST(HubClient, TheNextPageHasAnHttpAddress) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) { say(page_of("f", "ftp://hub/page")); });
  const Error error = catch_error([&] { listed_names(hub); });
  EXPECT_EQ(error.sentence(), "the next page of the listing is at \"ftp://hub/page\"");
  EXPECT_EQ(hub.asked(), 1);
}

TEST(HubClient, PagesInACircleAreRefused) {
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    say(page_of(fmt::format("f{}", number), number % 2 == 1 ? "/page?cursor=1" : "/page?cursor=2"));
  });
  const Error error = catch_error([&] { listed_names(hub); });
  EXPECT_EQ(error.code(), ErrorCode::network);
  EXPECT_EQ(error.sentence(), "the listing's pages go in circles");
  EXPECT_EQ(error.file(), hub.endpoint() + "/page");
  EXPECT_EQ(hub.asked(), 3);
}

// The listing names what can't be requested once, and goes on.
TEST(HubClient, FilesWhosePathsLeadElsewhereAreLeftOut) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say(json_answer(R"([{"type":"file","path":"../a","size":1},{"type":"file","path":"b","size":1},
                        {"type":"file","path":"c/../d","size":1}])"));
  });
  for (const bool noted : {true, false}) {
    HubOptions options = patient_options(hub);
    std::vector<std::string> said;
    if (noted) options.note = [&](const std::string& line) { said.push_back(line); };
    HubClient client(options);
    const auto files = list_files(client, {"o/m", std::string(40, 'a')});
    ASSERT_EQ(files.size(), 1U);
    EXPECT_EQ(files[0].path, "b");
    ASSERT_EQ(said.size(), noted ? 1U : 0U);
    if (noted) {
      EXPECT_TRUE(said[0].starts_with(R"(leaves out "../a" of o/m: )")) << said[0];
    }
  }
}

// Words that a refusal needs: the front of a long answer, and the names that were meant.
TEST(HubClient, AMistypedRevisionIsAnsweredWithThoseThatThereAre) {
  std::string names = R"({"name":"main"})";
  for (int i = 0; i < 30; ++i) names += fmt::format(R"(,{{"name":"x{}"}})", i);
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    say(number % 2 == 1
            ? "HTTP/1.1 404 Not Found\r\nX-Error-Code: RevisionNotFound\r\nContent-Length: "
              "0\r\n\r\n"
            : json_answer(
                  fmt::format(R"({{"branches":[{}],"tags":[{{"name":"release-1"}}]}})", names)));
  });
  HubClient client(patient_options(hub));
  const auto hint = [&](const std::string& revision) {
    return catch_error([&] { resolve_revision(client, "o/m", revision); }).hint_text();
  };
  const std::string unlike = hint("quite-different");
  EXPECT_NE(unlike.find("main, x0, "), std::string::npos) << unlike;
  EXPECT_EQ(unlike.find("x29"), std::string::npos) << unlike;
  names = R"({"name":"main"})";
  EXPECT_EQ(hint("quite-different"), "pass one of main, release-1");
  const std::string like = hint("release-2");
  EXPECT_NE(like.find("release-1"), std::string::npos) << like;
}

TEST(HubClient, AnInterruptEndsTheSearchForAHint) {
  std::atomic<bool> stop = false;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    if (number == 1) return (void)say(refusal("404 Not Found", ""));
    stop = true;  // and no answer
  });
  HubOptions options = patient_options(hub);
  options.stop = &stop;
  HubClient client(options);
  const Error error = catch_error([&] { resolve_revision(client, "o/m", "v1"); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
}

TEST(HubClient, AModelWithoutAnOwnerIsSearchedByItsName) {
  std::vector<std::string> asked;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    asked.push_back(say.request().substr(4, say.request().find(' ', 4) - 4));
    say(number == 1 ? refusal("404 Not Found", "") : json_answer(R"([{"id":"org/gpt2"}])"));
  });
  HubClient client(patient_options(hub));
  const Error error = catch_error([&] { resolve_revision(client, "gpt2", ""); });
  EXPECT_EQ(error.hint_text(),
            "did you mean org/gpt2? check the name; if the model is private, set HF_TOKEN");
  EXPECT_EQ(asked, (std::vector<std::string>{"/api/models/gpt2",
                                             "/api/models?search=gpt2&limit=3&sort=downloads"}));
}

// The refusal of a model that isn't there, and the requests for its hint.
struct Mistyped {
  std::string hint;
  std::vector<std::string> asked;
};

// `owned` and `found` are the answers about models of the owner, and of all owners.
Mistyped mistype(const std::string& revision, const std::string& owned, const std::string& found) {
  Mistyped out;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    const std::string path = say.request().substr(4, say.request().find(' ', 4) - 4);
    out.asked.push_back(path);
    const bool is_owned = path.find("?author=") != std::string::npos;
    const std::string& models = is_owned ? owned : found;
    const bool is_search = is_owned || path.find("?search=") != std::string::npos;
    say(is_search && !models.empty() ? json_answer(models) : refusal("404 Not Found", ""));
  });
  HubClient client(patient_options(hub));
  const Error error = catch_error([&] { resolve_revision(client, "o/model", revision); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  out.hint = error.hint_text();
  return out;
}

TEST(HubClient, AMistypedModelIsAnsweredWithNearOnesOfItsOwnerFirst) {
  const std::string model = "/api/models/o/model";
  const std::string owner = "/api/models?author=o&limit=500&sort=downloads";
  const std::string all = "/api/models?search=model&limit=3&sort=downloads";
  const std::string check = "check the name; if the model is private, set HF_TOKEN";
  const std::string far = R"([{"id":"o/quite-different"}])";
  using Asked = std::vector<std::string>;
  const Mistyped near =
      mistype("", R"([{"id":"o/quite-different"},{"id":"o/models"}])", R"([{"id":"p/model"}])");
  EXPECT_EQ(near.hint, "did you mean o/models? " + check);
  EXPECT_EQ(near.asked, (Asked{model, owner}));
  const Mistyped other = mistype("", far, R"([{"id":"p/model"},{"id":"q/my-model"}])");
  EXPECT_EQ(other.hint, "did you mean p/model, q/my-model? " + check);
  EXPECT_EQ(other.asked, (Asked{model, owner, all}));
  EXPECT_EQ(mistype("", "", R"([{"id":"p/model"}])").hint, "did you mean p/model? " + check)
      << "no answer about the owner";
  EXPECT_EQ(mistype("", far, "[]").hint, check);
  const Mistyped revision = mistype("v1", R"([{"id":"o/models"}])", "[]");
  EXPECT_EQ(revision.hint, "did you mean o/models? " + check);
  EXPECT_EQ(revision.asked, (Asked{model + "/revision/v1", model + "/refs", owner}));
}

TEST(HubClient, AnAnswerThatIsNotAListingIsAnError) {
  const auto refused = [](const std::string& answer) {
    const OneAnswer hub([&](int, const OneAnswer::Say& say) { say(answer); });
    const Error error = catch_error([&] { listed_names(hub); });
    EXPECT_EQ(error.code(), ErrorCode::network);
    EXPECT_TRUE(error.file().starts_with(hub.endpoint() + "/api/models/o/m/tree/")) << error.file();
    EXPECT_EQ(hub.asked(), 1);
    return error;
  };
  EXPECT_EQ(refused("HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n"
                    "Location: http://login.example/page?token=s\r\n\r\n")
                .sentence(),
            "it redirects to \"http://login.example/page\", which isn't a Hub");
  const Error page = refused(json_answer("<html>"));
  EXPECT_TRUE(page.sentence().starts_with("the answer isn't JSON: ")) << page.sentence();
  EXPECT_EQ(page.hint_text(), "a proxy or a network's login page may have answered");
  const Error object = refused(json_answer("{}"));
  EXPECT_TRUE(object.sentence().starts_with("the answer isn't a listing of files: "))
      << object.sentence();
}

TEST(HubClient, AnyStatusOfSuccessIsAnAnswer) {
  const std::string body = fmt::format(R"({{"sha":"{}"}})", std::string(40, 'c'));
  for (const char* status : {"200 OK", "299 Fine"}) {
    const OneAnswer hub([&](int, const OneAnswer::Say& say) { say(refusal(status, body)); });
    HubClient client(patient_options(hub));
    EXPECT_EQ(resolve_revision(client, "o/m", "main").commit, std::string(40, 'c'));
  }
}

// A proxy may answer with its page of a login.
TEST(HubClient, ARevisionIsACommit) {
  const std::string commit(40, 'c');
  const auto resolved = [&](const std::string& answer, const std::string& revision) {
    const OneAnswer hub([&](int, const OneAnswer::Say& say) { say(json_answer(answer)); });
    HubClient client(patient_options(hub));
    try {
      return resolve_revision(client, "o/m", revision).commit;
    } catch (const Error& error) {
      return error.sentence();
    }
  };
  EXPECT_EQ(resolved(fmt::format(R"({{"sha":"{}"}})", commit), "main"), commit);
  EXPECT_EQ(resolved("not asked", commit), commit);
  for (const char* answer : {R"({})", R"({"sha":1})", R"({"sha":"main"})"}) {
    EXPECT_EQ(resolved(answer, ""), "the answer doesn't come from a Hub: it lacks a commit")
        << answer;
  }
}

TEST(HubListing, ARevisionIsAskedForAsOnePartOfTheUrl) {
  std::string asked;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    asked = say.request().substr(0, say.request().find("\r\n"));
    say(json_answer(fmt::format(R"({{"sha":"{}"}})", std::string(40, 'c'))));
  });
  HubClient client(patient_options(hub));
  const HubRepo found = resolve_revision(client, "o/m", "refs/pr/1");
  EXPECT_EQ(asked, "GET /api/models/o/m/revision/refs%2Fpr%2F1 HTTP/1.1");
  EXPECT_EQ(found.name, "o/m");
  EXPECT_EQ(found.commit, std::string(40, 'c'));
  (void)resolve_revision(client, "o/m", "");
  EXPECT_EQ(asked, "GET /api/models/o/m HTTP/1.1");
}

// A near name counts, however many names there are.
TEST(HubListing, AHintNamesEightRevisionsOrTheNearestOfAll) {
  int count = 0;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    if (number % 2 == 1)
      return (void)say(
          "HTTP/1.1 404 Not Found\r\nX-Error-Code: RevisionNotFound\r\n"
          "Content-Length: 0\r\n\r\n");
    std::string names;
    for (int i = 0; i < count; ++i) names += fmt::format(R"({{"name":"x{}"}},)", i);
    say(json_answer(fmt::format(R"({{"branches":[{}{{"name":"main"}}],"tags":[]}})", names)));
  });
  HubClient client(patient_options(hub));
  const auto hint = [&](int others, const std::string& revision) {
    count = others;
    return catch_error([&] { resolve_revision(client, "o/m", revision); }).hint_text();
  };
  EXPECT_EQ(hint(7, "quite-different"), "pass one of x0, x1, x2, x3, x4, x5, x6, main");
  EXPECT_EQ(hint(8, "quite-different"), "pass one of x0, x1, x2, x3, x4, x5, x6, x7");
  EXPECT_EQ(hint(30, "mian"), "did you mean main?");
}

TEST(HubListing, ANoteSaysWhyAFileIsLeftOut) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say(json_answer(R"([{"type":"file","path":"a\nb","size":1}])"));
  });
  HubOptions options = patient_options(hub);
  std::vector<std::string> said;
  options.note = [&](const std::string& line) { said.push_back(line); };
  HubClient client(options);
  EXPECT_TRUE(list_files(client, {"o/m", std::string(40, 'a')}).empty());
  EXPECT_EQ(said, std::vector<std::string>{R"(leaves out "a\x0ab" of o/m: the path has "\x0a")"});
}

}  // namespace
}  // namespace hfshard
