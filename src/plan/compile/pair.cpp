#include "plan/compile/pair.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ops/source_rows.h"
#include "ops/value.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint32_t kLeftOut = UINT32_MAX;

// Keeps the leaves that have a new number, with the dtypes in `kept`. Removes the rules of the
// others.
CompiledModel keep_leaves(CompiledModel model, const std::vector<std::uint32_t>& numbers,
                          const std::vector<Leaf>& kept) {
  std::erase_if(model.transfers,
                [&](const Transfer& item) { return numbers[item.target] == kLeftOut; });
  std::erase_if(model.fills, [&](const Fill& item) { return numbers[item.target] == kLeftOut; });
  for (Transfer& transfer : model.transfers) transfer.target = numbers[transfer.target];
  for (Fill& fill : model.fills) fill.target = numbers[fill.target];
  model.drops.clear();
  model.leaves = kept;
  return model;
}

void check_whole_bytes(const Leaf& leaf) {
  if (size_bits(leaf.dtype) % 8 == 0) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("elements of {} aren't whole bytes, so hfshard can't compare them",
                          to_string(leaf.dtype)))
      .in_tensor(leaf.name);
}

bool casts_work(const CompiledModel& model, std::uint32_t leaf, DType dtype) {
  return std::ranges::all_of(model.transfers, [&](const Transfer& transfer) {
    return transfer.target != leaf || transfer.decode ||
           can_apply_value(transfer.value, transfer.source_dtype, dtype);
  });
}

// Returns for each leaf a dtype that some of its sources have and it has not, if they have several.
// A stack has one dtype, so layers of another are cast.
std::vector<std::optional<DType>> cast_layers(const CompiledModel& model) {
  struct Seen {
    std::optional<DType> any, other;
    bool several = false;
  };
  std::vector<Seen> seen(model.leaves.size());
  for (const Transfer& transfer : model.transfers) {
    if (transfer.decode) continue;
    Seen& at = seen[transfer.target];
    at.several = at.several || (at.any && *at.any != transfer.source_dtype);
    at.any = transfer.source_dtype;
    if (transfer.source_dtype != model.leaves[transfer.target].dtype)
      at.other = transfer.source_dtype;
  }
  std::vector<std::optional<DType>> out;
  out.reserve(seen.size());
  for (const Seen& at : seen) out.push_back(at.several ? at.other : std::nullopt);
  return out;
}

// Collects the pairs.
class Pairing {
 public:
  Pairing(ModelSide& left, ModelSide& right, bool values_only, ModelPair& out)
      : left_(left.model),
        right_(right.model),
        values_only_(values_only),
        out_(out),
        left_numbers_(left_.leaves.size(), kLeftOut),
        right_numbers_(right_.leaves.size(), kLeftOut) {
    if (values_only_) return;
    left_cast_ = cast_layers(left_);
    right_cast_ = cast_layers(right_);
  }

  void add(std::uint32_t left, std::uint32_t right) {
    Leaf leaf = left_.leaves[left];
    Leaf other = right_.leaves[right];
    if (!values_only_ && leaf.dtype == other.dtype) {
      leaf.dtype = left_cast_[left].value_or(leaf.dtype);
      other.dtype = right_cast_[right].value_or(other.dtype);
    }
    check_whole_bytes(leaf);
    check_whole_bytes(other);
    std::optional<DType> dtype;
    if (leaf.dtype == other.dtype) dtype = leaf.dtype;
    if (!dtype && values_only_) dtype = narrower_dtype(leaf.dtype, other.dtype);
    if (dtype && leaf.dtype != other.dtype &&
        !(casts_work(left_, left, *dtype) && casts_work(right_, right, *dtype)))
      dtype.reset();
    if (!dtype || !(leaf.shape == other.shape)) {
      out_.unlike.push_back({leaf, other});
      return;
    }
    out_.dtypes.push_back({leaf.dtype, other.dtype});
    leaf.dtype = *dtype;
    if (leaf.stacked.empty()) leaf.stacked = other.stacked;
    left_numbers_[left] = right_numbers_[right] = static_cast<std::uint32_t>(kept_.size());
    kept_.push_back(std::move(leaf));
  }

  CompiledModel left() { return shortened(keep_leaves(std::move(left_), left_numbers_, kept_)); }
  CompiledModel right() { return shortened(keep_leaves(std::move(right_), right_numbers_, kept_)); }

 private:
  // Nothing is hashed here, so rows needn't be whole.
  static CompiledModel shortened(CompiledModel model) {
    shorten_rows(model);
    return model;
  }

  CompiledModel& left_;
  CompiledModel& right_;
  bool values_only_;
  ModelPair& out_;
  std::vector<std::optional<DType>> left_cast_, right_cast_;
  std::vector<std::uint32_t> left_numbers_, right_numbers_;
  std::vector<Leaf> kept_;
};

}  // namespace

std::optional<DType> narrower_dtype(DType a, DType b) noexcept {
  const auto casts = [](DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
  };
  if (a == b) return a;
  if (a == DType::f64 && casts(b)) return b;
  if (b == DType::f64 && casts(a)) return a;
  if (!casts(a) || !casts(b)) return std::nullopt;
  if (a == DType::f32) return b;
  return b == DType::f32 ? a : DType::f32;
}

ModelPair pair_models(ModelSide left, ModelSide right, bool values_only,
                      const std::function<bool(std::string_view)>& wanted) {
  ModelPair out;
  Pairing pairing(left, right, values_only, out);
  const std::vector<Leaf>& a = left.model.leaves;
  const std::vector<Leaf>& b = right.model.leaves;
  std::uint32_t i = 0;
  std::uint32_t j = 0;
  while (i < a.size() || j < b.size()) {
    const int order = j == b.size() ? -1 : i == a.size() ? 1 : a[i].name.compare(b[j].name);
    const bool is_wanted = wanted(order > 0 ? b[j].name : a[i].name);
    if (is_wanted && order == 0) pairing.add(i, j);
    if (is_wanted && order < 0) out.only_left.push_back(a[i]);
    if (is_wanted && order > 0) out.only_right.push_back(b[j]);
    i += order <= 0 ? 1 : 0;
    j += order >= 0 ? 1 : 0;
  }
  out.left = make_model(std::move(left.checkpoint), pairing.left());
  out.right = make_model(std::move(right.checkpoint), pairing.right());
  return out;
}

}  // namespace hfshard
