#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hfshard {

/// The kind of a failure. `exit_status` maps it to the exit status of the process. That is 2 for
/// usage, 4 for io and network, 70 for internal, 130 for cancelled, and 3 for all others.
enum class ErrorCode : std::uint8_t {
  usage,        ///< the command line is wrong
  bad_input,    ///< the source contradicts itself or its config
  corrupt,      ///< bytes are damaged or truncated
  unsupported,  ///< legal, but outside what this release can do
  not_found,    ///< a file or tensor that must exist does not
  conflict,     ///< the output exists, or is in use
  limit,        ///< not enough memory or disk, or too large
  io,           ///< the operating system refused
  network,      ///< a remote end refused or went away
  internal,     ///< a bug in this program
  cancelled,    ///< interrupted by the user
  access,       ///< the Hub refuses this account or token
};

/// Returns the name as printed: `bad_input`.
std::string_view to_string(ErrorCode code) noexcept;
/// Returns the exit status of the process for this code.
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
/// Copies are cheap and don't throw (one shared pointer). A setter sets a fact only if it is empty,
/// so the throw site wins over outer layers. Setters return *this for chaining in a throw
/// expression.
class Error final : public std::exception {
 public:
  Error(ErrorCode code, std::string sentence, const char* source_file = __builtin_FILE(),
        int source_line = __builtin_LINE());

  Error& in_file(std::string_view file_or_url);
  Error& in_tensor(std::string_view tensor);
  /// Sets the byte range in the file, and the total that bounds it.
  Error& at(ByteRange range, std::uint64_t total_bytes);
  /// Sets the place in a text file.
  Error& on_line(TextPlace place);
  /// Sets the JSON pointer of the rule: `mappings/llama.json#/schemes/maxtext/3`.
  Error& by_rule(std::string_view rule);
  /// Sets the advice: an imperative, a command if possible.
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
  /// Returns a copy with another code and sentence.
  Error reworded(ErrorCode code, std::string sentence) const;
  /// Returns a copy with another hint.
  Error rehinted(std::string hint) const;

  /// Returns the message for a person: `error [corrupt]: ...`, then one fact per line. It has no
  /// trailing newline.
  std::string format() const;

 private:
  struct Facts;
  std::shared_ptr<Facts> facts_;
};

/// Throws ErrorCode::internal, for HFSHARD_CHECK.
[[noreturn]] void check_failed(const char* condition, const char* source_file, int source_line);

}  // namespace hfshard

/// Checks for bugs in hfshard, never for bad input. Release builds keep it.
#define HFSHARD_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::hfshard::check_failed(#condition, __FILE__, __LINE__))
