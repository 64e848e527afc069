#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hfshard {

/// Decodes base64 with padding, in the common alphabet or the one for URLs and file names (RFC 4648
/// 4 and 5). Returns nothing if `text` isn't base64.
std::optional<std::string> decode_base64(std::string_view text);
/// Encodes in the alphabet for URLs and file names.
std::string encode_base64(std::string_view bytes);

}  // namespace hfshard
