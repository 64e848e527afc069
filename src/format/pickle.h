#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard::format {

/// Whether a pickle may refer to external data (BINPERSID), as pickles of tensors do.
enum class Persistent : std::uint8_t { refused, allowed };

/// The values of a pickle, as data. A machine with a value stack and a memo builds them from the
/// opcodes that checkpoints use. It never imports, calls or creates an object: a global is its
/// name, and a call is its callee and arguments. Values are numbered and can be shared, and a
/// container can contain itself. So code that walks them must bound its depth by the structure that
/// it expects. Memory is at most a few dozen bytes for each byte of the stream; nothing recurses.
/// FORMAT.md, Pickles.
class Pickle {
 public:
  using Id = std::uint32_t;
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    bytes,
    tuple,
    list,
    dict,  ///< or OrderedDict
    set,
    global,
    call,        ///< REDUCE, NEWOBJ
    persistent,  ///< BINPERSID
    other,       ///< an integer beyond 64 bits
  };

  /// Parses a stream. `name` is the file's, for errors, and the stream starts there at
  /// `begin_bytes`. Throws: unsupported (an opcode that checkpoints don't use, with its offset),
  /// corrupt (a truncated or invalid stream), limit (too many values).
  Pickle(std::string stream, std::string name, Persistent persistent, std::uint64_t begin_bytes = 0,
         std::uint64_t total_bytes = 0);

  Id root() const noexcept { return root_; }
  Kind kind(Id id) const noexcept { return nodes_[id].kind; }
  bool is(Id id, Kind kind) const noexcept { return nodes_[id].kind == kind; }
  std::int64_t integer(Id id) const noexcept { return static_cast<std::int64_t>(nodes_[id].b); }
  bool boolean(Id id) const noexcept { return nodes_[id].b != 0; }
  /// Returns a view of a text or bytes value. It is valid as long as this.
  std::string_view text(Id id) const noexcept {
    return std::string_view(stream_).substr(nodes_[id].b, nodes_[id].a);
  }
  /// Returns the elements of a tuple.
  std::span<const Id> tuple(Id id) const noexcept {
    return std::span(items_).subspan(nodes_[id].b, nodes_[id].a);
  }
  /// Calls `visit(span)` for the runs of elements of a list, or of alternating keys and values of a
  /// dict.
  template <typename Visit>
  void for_each_run(Id id, const Visit& visit) const {
    for (std::uint64_t at = nodes_[id].b; at != 0; at = runs_[at - 1].next)
      visit(std::span(items_).subspan(runs_[at - 1].begin, runs_[at - 1].count));
  }
  /// Returns whether a list or dict has at most `most` elements. In a dict, keys and values both
  /// count.
  bool has_at_most(Id id, std::uint64_t most) const noexcept;
  /// Returns whether a value is the global with that module and name.
  bool is_global(Id id, std::string_view module, std::string_view name) const noexcept;
  /// Returns the dotted name of a global: "torch.bfloat16".
  std::string global_name(Id id) const;
  /// Callee and arguments of a call, and the state that BUILD set on its result.
  Id callee(Id id) const noexcept { return nodes_[id].a; }
  Id arguments(Id id) const noexcept { return static_cast<Id>(nodes_[id].b >> 32); }
  std::optional<Id> state(Id id) const noexcept;
  /// Returns the value of a persistent id.
  Id inner(Id id) const noexcept { return nodes_[id].a; }
  /// Returns the value of a text key in a dict. If the key repeats, the last one counts.
  std::optional<Id> find(Id dict, std::string_view key) const;

  const std::string& name() const noexcept { return name_; }
  std::uint64_t size_bytes() const noexcept { return stream_.size(); }
  /// Returns the end of the pickle. The stream can have more bytes after it.
  std::uint64_t end_bytes() const noexcept { return end_bytes_; }
  /// Returns the number of values. Every smaller number is an Id.
  Id values() const noexcept { return static_cast<Id>(nodes_.size()); }

 private:
  friend class PickleMachine;
  struct Node {
    Kind kind = Kind::none;
    std::uint32_t a = 0;
    std::uint64_t b = 0;
  };
  struct Run {
    std::uint64_t begin = 0;
    std::uint32_t count = 0;
    std::uint32_t next = 0;  // number of the next run, plus one
  };

  std::string stream_;
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Id> items_;
  std::vector<Run> runs_;
  Id root_ = 0;
  std::uint64_t end_bytes_ = 0;
};

}  // namespace hfshard::format
