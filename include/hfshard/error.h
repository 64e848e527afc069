#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hfshard {

/// Why something failed; `exit_status` maps each code to the process's exit status (style: usage 2,
/// the next six 3, io and network 4, internal 70, cancelled 130).
enum class ErrorCode : std::uint8_t {
  usage,        ///< the command line is wrong
  bad_input,    ///< the source contradicts itself or its config
  corrupt,      ///< bytes are damaged or truncated
  unsupported,  ///< legal, but outside what this release can do
  not_found,    ///< a file or tensor that must exist does not
  conflict,     ///< the output exists, or somebody else works on it
  limit,        ///< memory, disk or a size limit does not suffice
  io,           ///< the operating system refused
  network,      ///< a remote end refused or went away
  internal,     ///< a bug in this program
  cancelled,    ///< interrupted by the user
};

/// Name as printed: `bad_input`.
std::string_view to_string(ErrorCode code) noexcept;
/// Exit status of the process for an error of this code.
int exit_status(ErrorCode code) noexcept;

/// Half-open range of byte offsets.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// A place in a text file.
struct TextPlace {
  std::uint64_t line = 0;    ///< from 1
  std::uint64_t column = 0;  ///< from 1, in characters
  friend bool operator==(const TextPlace&, const TextPlace&) = default;
};

/// The one exception type: a code, one sentence, and the facts needed to act on it.
/// Cheap and non-throwing to copy (one shared pointer). Setters fill a fact only while it is empty,
/// so that the throw site wins over outer layers; they return *this for chaining in a throw
/// expression.
class Error final : public std::exception {
 public:
  Error(ErrorCode code, std::string sentence, const char* source_file = __builtin_FILE(),
        int source_line = __builtin_LINE());

  Error& in_file(std::string_view file_or_url);
  Error& in_tensor(std::string_view tensor);
  /// Byte range within the file, and the total it must lie in.
  Error& at(ByteRange range, std::uint64_t total_bytes);
  /// Where in a text file.
  Error& on_line(TextPlace place);
  /// JSON pointer of the rule: `mappings/llama.json#/schemes/maxtext/3`.
  Error& by_rule(std::string_view rule);
  /// What to do about it.
  Error& hint(std::string_view text);

  ErrorCode code() const noexcept;
  const std::string& sentence() const noexcept;
  const std::string& file() const noexcept;
  const std::string& tensor() const noexcept;
  const std::string& rule() const noexcept;
  const std::string& hint_text() const noexcept;
  std::optional<ByteRange> range() const noexcept;
  std::uint64_t total_bytes() const noexcept;
  std::optional<TextPlace> place() const noexcept;
  const char* what() const noexcept override;
  /// The same facts under another code and sentence.
  Error reworded(ErrorCode code, std::string sentence) const;

  /// The whole message as a person sees it (several lines, no trailing newline):
  /// `error [corrupt]: ...` and then one fact per line.
  std::string format() const;

 private:
  struct Facts;
  std::shared_ptr<Facts> facts_;
};

/// Throws ErrorCode::internal; used by HFSHARD_CHECK.
[[noreturn]] void check_failed(const char* condition, const char* source_file, int source_line);

}  // namespace hfshard

/// Stays on in release builds; for our own bugs only, never for input.
#define HFSHARD_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::hfshard::check_failed(#condition, __FILE__, __LINE__))
