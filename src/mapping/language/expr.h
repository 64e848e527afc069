#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hfshard {

/// A config key or an option that is missing or null. `message` is the error for code that needs
/// it.
struct Absent {
  std::string message;
  /// A missing option: false in a condition, unequal to everything.
  bool option = false;
};

using ExprValue = std::variant<Absent, bool, std::int64_t, double, std::string>;

/// Returns a value as config.json has it, for errors.
std::string shown_value(const ExprValue& value);

/// Values for the names in an expression.
class Scope {
 public:
  virtual ~Scope() = default;
  /// Returns the value of a dim, a loop, `option.x` or a dotted config path.
  virtual ExprValue lookup(const std::string& name) const = 0;
  /// Returns whether the source has this tensor.
  virtual bool tensor_exists(std::string_view name) const = 0;
  /// Returns the extent of a source tensor's axis. Absent if the tensor, its shape or the axis
  /// isn't known.
  virtual ExprValue tensor_extent(std::string_view name, std::size_t axis) const = 0;
  /// Returns the length of the list at a config path. 0 if it is absent.
  virtual std::int64_t length(const std::string& path) const = 0;
  /// Returns whether config.json has a value at a path, or null.
  virtual bool is_stated(const std::string& path) const = 0;
  /// Returns an expression's text for errors.
  virtual std::string shown(const std::string& text) const { return text; }
};

struct ExprTree;

/// An expression of the mapping language (mappings/README.md), parsed once. Cheap to copy;
/// immutable; thread-safe. From weak to strong: `? :`, `??`, `||`, `&&`, `== !=`, `< > <= >=`,
/// `+ -`, `* / // %`, `! -`. Integers are int64 and `/` must be exact; inside a value rule (`real`)
/// everything is f64. Every evaluation throws bad_input with the expression and its JSON pointer.
class Expr {
 public:
  /// Parses `text`. `pointer` is its place, for errors.
  explicit Expr(std::string_view text, std::string_view pointer);

  ExprValue evaluate(const Scope& scope) const;
  /// Returns the value as an integer.
  std::int64_t integer(const Scope& scope) const;
  /// Returns the value as part of a name: a number or a text.
  std::string name_part(const Scope& scope) const;
  /// Returns the value as a condition: a boolean, an integer (true if not zero), or a missing
  /// option (false).
  bool truth(const Scope& scope) const;
  /// Returns the value computed in f64, for constants of value rules.
  double real(const Scope& scope) const;

  const std::string& text() const noexcept;
  const std::string& pointer() const noexcept;
  /// Returns every name in the expression, with repetitions.
  std::vector<std::string> names() const;
  /// Returns every list whose length or element occurs, with repetitions.
  std::vector<std::string> lists() const;

 private:
  std::shared_ptr<const ExprTree> tree_;
};

}  // namespace hfshard
