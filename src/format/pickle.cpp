#include "format/pickle.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "format/pickle_opcodes.h"

#include "hfshard/error.h"

namespace hfshard::format {

// Executes the opcodes of one stream.
class PickleMachine {
 public:
  PickleMachine(Pickle& out, Persistent persistent, std::uint64_t begin_bytes,
                std::uint64_t total_bytes)
      : out_(out),
        bytes_(as_bytes(out.stream_)),
        persistent_(persistent),
        begin_bytes_(begin_bytes),
        total_bytes_(total_bytes != 0 ? total_bytes : out.stream_.size()) {}

  void run() {
    for (;;) {
      op_at_ = at_;
      const auto op = static_cast<Op>(take(1)[0]);
      if (op == Op::stop) break;
      step(op);
    }
    if (stack_.empty() || !marks_.empty()) fail("the pickle ends with open values");
    out_.root_ = stack_.back();
    out_.end_bytes_ = at_;
  }

 private:
  using Id = Pickle::Id;
  using Kind = Pickle::Kind;

  // Ten times the number of values in the largest known checkpoints.
  static constexpr std::size_t kMaxNodes = std::size_t{1} << 25;
  static constexpr std::size_t kMaxStack = std::size_t{1} << 24;
  static constexpr std::size_t kMaxMarks = std::size_t{1} << 20;

  [[noreturn]] void fail(std::string sentence, ErrorCode code = ErrorCode::corrupt) const {
    throw Error(code, std::move(sentence))
        .in_file(out_.name_)
        .at({begin_bytes_ + op_at_, begin_bytes_ + at_}, total_bytes_);
  }
  [[noreturn]] void refuse(Op op) const {
    fail(fmt::format("the pickle has the opcode {:#04x} at byte {}, which no checkpoint needs",
                     static_cast<unsigned>(op), begin_bytes_ + op_at_),
         ErrorCode::unsupported);
  }

  // -- The stream

  std::span<const std::byte> take(std::uint64_t size) {
    if (!in_range(at_, size, bytes_.size())) {
      fail(fmt::format("the pickle is cut off: {} more bytes are wanted, {} are there", size,
                       bytes_.size() - at_));
    }
    const auto out = bytes_.subspan(at_, size);
    at_ += size;
    return out;
  }
  template <typename T>
  T number() {
    return load_le<T>(take(sizeof(T)).data());
  }
  Id text(Kind kind, std::uint64_t size) {
    if (size > std::numeric_limits<std::uint32_t>::max()) {
      at_ = bytes_.size();
      fail(fmt::format("a text of {} bytes, in a pickle of {}", size, bytes_.size()));
    }
    const std::uint64_t begin = at_;
    take(size);
    return add(kind, static_cast<std::uint32_t>(size), begin);
  }
  Id line() {
    const std::size_t end = out_.stream_.find('\n', at_);
    if (end == std::string::npos) fail("the pickle is cut off within a name");
    const Id out = text(Kind::text, end - at_);
    take(1);
    return out;
  }
  Id long_integer(std::uint64_t size) {
    const auto bytes = take(size);
    if (size > 8) return add(Kind::other, 0, 0);
    std::uint64_t value =
        size > 0 && (bytes[size - 1] & std::byte{0x80}) != std::byte{0} ? ~std::uint64_t{0} : 0;
    for (std::size_t i = size; i-- > 0;)
      value = (value << 8) | std::to_integer<std::uint64_t>(bytes[i]);
    return add(Kind::integer, 0, value);
  }

  // -- Values

  Id add(Kind kind, std::uint32_t a, std::uint64_t b) {
    if (out_.nodes_.size() >= kMaxNodes)
      fail(fmt::format("a pickle of more than {} values", kMaxNodes), ErrorCode::limit);
    out_.nodes_.push_back({kind, a, b});
    return static_cast<Id>(out_.nodes_.size() - 1);
  }
  void push(Id id) {
    if (stack_.size() >= kMaxStack)
      fail(fmt::format("more than {} open values", kMaxStack), ErrorCode::limit);
    stack_.push_back(id);
  }
  void push(Kind kind, std::uint64_t b = 0) { push(add(kind, 0, b)); }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Id pop() {
    if (stack_.size() <= floor()) fail("the pickle takes a value from an empty stack");
    const Id out = stack_.back();
    stack_.pop_back();
    return out;
  }
  Id top() {
    if (stack_.size() <= floor()) fail("the pickle uses a value of an empty stack");
    return stack_.back();
  }
  void mark() {
    if (marks_.size() >= kMaxMarks)
      fail(fmt::format("values nested deeper than {}", kMaxMarks), ErrorCode::limit);
    marks_.push_back(stack_.size());
  }
  // Moves the values above the last mark, or the last `count` ones, to the end of the items.
  std::uint32_t gather(std::optional<std::size_t> count) {
    if (!count && marks_.empty()) fail("the pickle has no mark where one is needed");
    if (count && stack_.size() - floor() < *count)
      fail("the pickle takes a value from an empty stack");
    const std::size_t begin = count ? stack_.size() - *count : marks_.back();
    if (!count) marks_.pop_back();
    const std::size_t size = stack_.size() - begin;
    out_.items_.insert(out_.items_.end(), stack_.begin() + static_cast<std::ptrdiff_t>(begin),
                       stack_.end());
    stack_.resize(begin);
    return static_cast<std::uint32_t>(size);
  }
  void make_tuple(std::optional<std::size_t> count) {
    const std::uint64_t begin = out_.items_.size();
    const std::uint32_t size = gather(count);
    push(add(Kind::tuple, size, begin));
  }
  // Appends `count` values, or those above the mark if it is empty, to the container below them.
  void extend(std::optional<std::size_t> count, bool pairs) {
    const std::uint64_t begin = out_.items_.size();
    const std::uint32_t size = gather(count);
    if (pairs && size % 2 != 0) fail("the pickle has a key without a value");
    Pickle::Node& node = out_.nodes_[top()];
    const bool fits =
        pairs ? node.kind == Kind::dict : node.kind == Kind::list || node.kind == Kind::set;
    if (node.kind == Kind::call)
      return;  // an instance of another class, which hfshard doesn't read
    if (!fits) fail("the pickle fills a value that is no container");
    if (size == 0) return;
    out_.runs_.push_back({begin, size, 0});
    const auto number = static_cast<std::uint32_t>(out_.runs_.size());
    if (node.a == 0) {
      node.b = number;
    } else {
      out_.runs_[node.a - 1].next = number;
    }
    node.a = number;  // the last run
  }
  void call() {
    const Id arguments = pop();
    const Id callee = pop();
    // A state dict is an OrderedDict. Later opcodes fill it.
    if (out_.is_global(callee, "collections", "OrderedDict") && out_.is(arguments, Kind::tuple) &&
        out_.tuple(arguments).empty())
      return push(Kind::dict);
    push(add(Kind::call, callee, std::uint64_t{arguments} << 32));
  }
  void build() {
    const Id state = pop();
    Pickle::Node& node = out_.nodes_[top()];
    if (node.kind == Kind::dict) return;  // attributes of a dict, such as _metadata
    if (node.kind != Kind::call) fail("the pickle gives a state to a value that can't have one");
    node.b = (node.b & ~std::uint64_t{UINT32_MAX}) | (std::uint64_t{state} + 1);
  }
  void global(Id module, Id name) {
    if (!out_.is(module, Kind::text) || !out_.is(name, Kind::text))
      fail("the pickle names a global by something that is no text");
    push(add(Kind::global, module, name));
  }

  // -- The memo

  void put(std::uint64_t index) {
    // Each stored value was made before, so an index never exceeds their number.
    if (index >= out_.nodes_.size()) fail(fmt::format("the memo has no place {}", index));
    if (index >= memo_.size()) memo_.resize(index + 1, kNothing);
    memo_[index] = top();
  }
  void get(std::uint64_t index) {
    if (index >= memo_.size() || memo_[index] == kNothing)
      fail(fmt::format("the memo holds nothing at {}", index));
    push(memo_[index]);
  }

  // -- Opcodes

  void step(Op op) {
    if (!scalar(op) && !container(op) && !object(op) && !memo(op)) refuse(op);
  }

  bool scalar(Op op) {
    switch (op) {
      case Op::none:
        push(Kind::none);
        return true;
      case Op::new_true:
      case Op::new_false:
        push(Kind::boolean, op == Op::new_true ? 1 : 0);
        return true;
      case Op::bin_int:
        push(Kind::integer, static_cast<std::uint64_t>(std::int64_t{number<std::int32_t>()}));
        return true;
      case Op::bin_int1:
        push(Kind::integer, number<std::uint8_t>());
        return true;
      case Op::bin_int2:
        push(Kind::integer, number<std::uint16_t>());
        return true;
      case Op::long1:
        push(long_integer(number<std::uint8_t>()));
        return true;
      case Op::long4:
        push(long_integer(number<std::uint32_t>()));
        return true;
      case Op::bin_float:
        take(8);
        push(Kind::real);
        return true;
      case Op::bin_unicode:
        push(text(Kind::text, number<std::uint32_t>()));
        return true;
      case Op::short_bin_unicode:
      case Op::short_bin_string:
        push(text(Kind::text, number<std::uint8_t>()));
        return true;
      case Op::bin_unicode8:
        push(text(Kind::text, number<std::uint64_t>()));
        return true;
      case Op::short_bin_bytes:
        push(text(Kind::bytes, number<std::uint8_t>()));
        return true;
      case Op::bin_bytes:
        push(text(Kind::bytes, number<std::uint32_t>()));
        return true;
      case Op::bin_bytes8:
        push(text(Kind::bytes, number<std::uint64_t>()));
        return true;
      default:
        return false;
    }
  }

  bool container(Op op) {
    switch (op) {
      case Op::mark:
        mark();
        return true;
      case Op::empty_tuple:
        make_tuple(0);
        return true;
      case Op::tuple1:
        make_tuple(1);
        return true;
      case Op::tuple2:
        make_tuple(2);
        return true;
      case Op::tuple3:
        make_tuple(3);
        return true;
      case Op::tuple:
        make_tuple(std::nullopt);
        return true;
      case Op::empty_list:
        push(Kind::list);
        return true;
      case Op::empty_dict:
        push(Kind::dict);
        return true;
      case Op::empty_set:
        push(Kind::set);
        return true;
      case Op::append:
        extend(1, false);
        return true;
      case Op::appends:
      case Op::add_items:
        extend(std::nullopt, false);
        return true;
      case Op::set_item:
        extend(2, true);
        return true;
      case Op::set_items:
        extend(std::nullopt, true);
        return true;
      case Op::frozen_set:
        make_tuple(std::nullopt);
        return true;
      default:
        return false;
    }
  }

  bool object(Op op) {
    switch (op) {
      case Op::global: {
        const Id module = line();
        global(module, line());
        return true;
      }
      case Op::stack_global: {
        const Id name = pop();
        global(pop(), name);
        return true;
      }
      case Op::new_obj_ex:
        pop();  // keyword arguments
        call();
        return true;
      case Op::new_obj:
      case Op::reduce:
        call();
        return true;
      case Op::build:
        build();
        return true;
      case Op::bin_pers_id:
        if (persistent_ == Persistent::refused) return false;
        push(add(Kind::persistent, pop(), 0));
        return true;
      default:
        return false;
    }
  }

  bool memo(Op op) {
    switch (op) {
      case Op::proto: {
        const auto protocol = number<std::uint8_t>();
        if (protocol > kMaxProtocol)
          fail(fmt::format("a pickle of protocol {}; known are those up to {}", protocol,
                           kMaxProtocol),
               ErrorCode::unsupported);
        return true;
      }
      case Op::frame:
        if (number<std::uint64_t>() > bytes_.size() - at_)
          fail("the pickle is cut off: a frame passes its end");
        return true;
      case Op::pop:
        // If no value is above a mark, POP removes the mark.
        if (!marks_.empty() && stack_.size() == marks_.back()) {
          marks_.pop_back();
        } else {
          pop();
        }
        return true;
      case Op::pop_mark:
        if (marks_.empty()) fail("the pickle has no mark where one is needed");
        stack_.resize(marks_.back());
        marks_.pop_back();
        return true;
      case Op::dup:
        push(top());
        return true;
      case Op::bin_put:
        put(number<std::uint8_t>());
        return true;
      case Op::long_bin_put:
        put(number<std::uint32_t>());
        return true;
      case Op::memoize:
        put(memo_.size());
        return true;
      case Op::bin_get:
        get(number<std::uint8_t>());
        return true;
      case Op::long_bin_get:
        get(number<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }

  static constexpr Id kNothing = UINT32_MAX;
  Pickle& out_;
  std::span<const std::byte> bytes_;
  Persistent persistent_;
  std::uint64_t begin_bytes_;
  std::uint64_t total_bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t op_at_ = 0;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Id> memo_;
};

Pickle::Pickle(std::string stream, std::string name, Persistent persistent,
               std::uint64_t begin_bytes, std::uint64_t total_bytes)
    : stream_(std::move(stream)), name_(std::move(name)) {
  PickleMachine(*this, persistent, begin_bytes, total_bytes).run();
}

bool Pickle::has_at_most(Id id, std::uint64_t most) const noexcept {
  std::uint64_t count = 0;
  for (std::uint64_t at = nodes_[id].b; at != 0 && count <= most; at = runs_[at - 1].next)
    count += runs_[at - 1].count;
  return count <= most;
}

bool Pickle::is_global(Id id, std::string_view module, std::string_view name) const noexcept {
  return is(id, Kind::global) && text(nodes_[id].a) == module &&
         text(static_cast<Id>(nodes_[id].b)) == name;
}

std::string Pickle::global_name(Id id) const {
  if (!is(id, Kind::global)) return {};
  return fmt::format("{}.{}", text(nodes_[id].a), text(static_cast<Id>(nodes_[id].b)));
}

std::optional<Pickle::Id> Pickle::state(Id id) const noexcept {
  const auto stored = static_cast<std::uint32_t>(nodes_[id].b);
  return stored == 0 ? std::nullopt : std::optional<Id>(stored - 1);
}

std::optional<Pickle::Id> Pickle::find(Id dict, std::string_view key) const {
  std::optional<Id> out;
  for_each_run(dict, [&](std::span<const Id> run) {
    for (std::size_t i = 0; i + 1 < run.size(); i += 2) {
      if (is(run[i], Kind::text) && text(run[i]) == key) out = run[i + 1];
    }
  });
  return out;
}

}  // namespace hfshard::format
