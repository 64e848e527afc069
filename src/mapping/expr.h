#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hfshard {

/// A config key or an option that is not there, or null. `message` is the error if somebody needs
/// it.
struct Absent {
  std::string message;
  bool option =
      false;  ///< an option that was not given: false in a condition, unequal to everything
};

using ExprValue = std::variant<Absent, bool, std::int64_t, double, std::string>;

/// Where an expression's names come from.
class Scope {
 public:
  virtual ~Scope() = default;
  /// Value of a dim, a loop, `option.x` or a dotted config path.
  virtual ExprValue lookup(const std::string& name) const = 0;
  /// Whether the source has this tensor.
  virtual bool tensor_exists(std::string_view name) const = 0;
  /// Extent of an axis of a source tensor; absent where the tensor, its shape or the axis is not
  /// known.
  virtual ExprValue tensor_extent(std::string_view name, std::size_t axis) const = 0;
  /// Elements of the list at a config path; none if it is absent.
  virtual std::int64_t length(const std::string& path) const = 0;
};

struct ExprTree;

/// An expression of the mapping language (mappings/README.md), parsed once. Cheap to copy;
/// immutable; thread-safe. From weak to strong: `? :`, `??`, `||`, `&&`, `== !=`, `< > <= >=`, `+
/// -`, `* / // %`, `! -`. Integers are int64 and `/` must be exact; inside a value rule (`real`)
/// everything is f64. Throws from every evaluation: bad_input with the expression and its JSON
/// pointer.
class Expr {
 public:
  /// Parses `text`; `pointer` is where it stands, as named in errors.
  explicit Expr(std::string_view text, std::string_view pointer);

  ExprValue evaluate(const Scope& scope) const;
  /// The value as an integer.
  std::int64_t integer(const Scope& scope) const;
  /// The value as part of a name: an integer or a text.
  std::string name_part(const Scope& scope) const;
  /// The value as a condition: booleans, integers (not zero), an option that was not given (false).
  bool truth(const Scope& scope) const;
  /// The value computed in f64, for constants of value rules.
  double real(const Scope& scope) const;

  const std::string& text() const noexcept;
  const std::string& pointer() const noexcept;
  /// Every name that occurs, with repetitions.
  std::vector<std::string> names() const;

 private:
  std::shared_ptr<const ExprTree> tree_;
};

}  // namespace hfshard
