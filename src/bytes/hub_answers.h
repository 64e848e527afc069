#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bytes/hf_cache.h"
#include "bytes/http.h"

namespace hfshard {

// What answers of hubs and data hosts say: text from anywhere, judged without asking further.

/// Where an answer sends who asked `url`.
struct Redirect {
  std::string url;      ///< empty: it is not followed
  std::string problem;  ///< why, as `it ...`
};
/// Only addresses of HTTP are followed, and from https only those of https.
Redirect redirect_of(const std::string& url, const HttpHeaders& headers);

/// How long a signed URL lives, by the clock of the answer that brought it; some minutes if neither
/// says so. Years at most.
std::chrono::seconds life_of_url(const std::string& url, const HttpHeaders& headers);

/// What is wrong with the head of an answer (200 or 206) to who asked for `want`, not empty, of a
/// file of `size_bytes`; empty: nothing. `of_hub`: a hub sent it, not a data host. One looks before
/// a byte of the body is used (hub-protocol 1.6).
std::string range_problem(int status, const HttpHeaders& headers, const ByteRange& want,
                          std::uint64_t size_bytes, bool of_hub);

/// The files of a page of a listing; their paths may be anything. Throws: bad_input.
std::vector<TreeFile> listed_files(const Json& page);
/// The page that `Link: <url>; rel="next"` names, as it stands there.
std::optional<std::string> next_page(const HttpHeaders& headers);

}  // namespace hfshard
