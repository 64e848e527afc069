#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hfshard {

/// Decodes base64 with padding, of the alphabet for URLs and file names or the common one (RFC 4648
/// 4 and 5). Nothing if it is none.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace hfshard
