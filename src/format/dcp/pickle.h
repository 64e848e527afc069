#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard::format::dcp {

/// Whether a pickle may name what lies outside of it (BINPERSID): those of tensors do.
enum class Persistent : std::uint8_t { refused, allowed };

/// What a pickle says, as data. A machine with a value stack and a memo builds it from the opcodes
/// that checkpoints have; nothing is imported, called or made: a global is its name, and a call is
/// what would be called with which arguments. Values are numbered and may be shared, and a
/// container may hold itself, so that whoever walks them goes down by what he expects, never by
/// what there is. Memory is at most a few dozen bytes for each byte of the stream; nothing
/// recurses. FORMAT.md, Pickles.
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
    dict,
    set,
    global,
    call,        ///< REDUCE, NEWOBJ
    persistent,  ///< BINPERSID
    other,       ///< an integer of more than 64 bits
  };

  /// `name` is the file's, for errors; `begin_bytes` where the stream begins in it. Throws:
  /// unsupported (an opcode that no checkpoint has, with its offset), corrupt (a truncated or
  /// senseless stream), limit (more values than are read).
  Pickle(std::string stream, std::string name, Persistent persistent, std::uint64_t begin_bytes = 0,
         std::uint64_t total_bytes = 0);

  Id root() const noexcept { return root_; }
  Kind kind(Id id) const noexcept { return nodes_[id].kind; }
  bool is(Id id, Kind kind) const noexcept { return nodes_[id].kind == kind; }
  std::int64_t integer(Id id) const noexcept { return static_cast<std::int64_t>(nodes_[id].b); }
  bool boolean(Id id) const noexcept { return nodes_[id].b != 0; }
  /// Of a text or bytes; a view into this.
  std::string_view text(Id id) const noexcept {
    return std::string_view(stream_).substr(nodes_[id].b, nodes_[id].a);
  }
  /// Elements of a tuple.
  std::span<const Id> tuple(Id id) const noexcept {
    return std::span(items_).subspan(nodes_[id].b, nodes_[id].a);
  }
  /// Calls `visit(span)` for the runs of elements of a list, of keys and values in turn of a dict.
  template <typename Visit>
  void for_each_run(Id id, const Visit& visit) const {
    for (std::uint64_t at = nodes_[id].b; at != 0; at = runs_[at - 1].next)
      visit(std::span(items_).subspan(runs_[at - 1].begin, runs_[at - 1].count));
  }
  /// Whether a list or dict has at most so many elements (of a dict, keys and values).
  bool has_at_most(Id id, std::uint64_t most) const noexcept;
  /// Whether a value is the global of that module and name.
  bool is_global(Id id, std::string_view module, std::string_view name) const noexcept;
  /// "torch.bfloat16".
  std::string global_name(Id id) const;
  /// What a call calls, with which arguments, and the state that it was then given (BUILD).
  Id callee(Id id) const noexcept { return nodes_[id].a; }
  Id arguments(Id id) const noexcept { return static_cast<Id>(nodes_[id].b >> 32); }
  std::optional<Id> state(Id id) const noexcept;
  /// Of a persistent id.
  Id inner(Id id) const noexcept { return nodes_[id].a; }
  /// The value of a text key in a dict; the last one where there are several.
  std::optional<Id> find(Id dict, std::string_view key) const;

  const std::string& name() const noexcept { return name_; }
  std::uint64_t size_bytes() const noexcept { return stream_.size(); }

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
};

}  // namespace hfshard::format::dcp
