#include "service/estimate.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <vector>

#include "base/digest.h"
#include "bytes/local/files.h"
#include "bytes/store/speed.h"
#include "ops/decode.h"
#include "ops/move.h"
#include "run/commit/staging.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 20;  // less takes only seconds
constexpr std::uint64_t kSide = 512;                            // the side of the transposed matrix
constexpr std::uint64_t kElements = kSide * kSide;
constexpr std::size_t kElementBytes = 2;
constexpr std::size_t kSampleBytes = kElements * kElementBytes;
// Compression takes a hundred times as long. zstd uses lighter settings for 256 KiB and less.
constexpr std::uint64_t kCodedSide = 384;
// zstd's tables are still empty after that little. A chunk that fills them takes up to 3.5 times as
// long per MiB. hfshard tries a larger chunk if that takes less than this.
constexpr double kMostCodingSeconds = 0.4;
constexpr std::uint64_t kLargerSides[] = {1440, 1024, 768};  // 4, 2 and 1 MiB
constexpr double kSlowerWhenFull = 3.5;
constexpr int kTimes = 3;

// Counts only this thread. Other work on the machine doesn't count.
double processor_seconds() {
  struct timespec now {};
  constexpr double kNano = 1e-9;
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + kNano * static_cast<double>(now.tv_nsec);
}

// Returns the shortest of a few runs. Slow work runs once.
double seconds_of(const std::function<void()>& work) {
  constexpr double kLong = 0.02;
  double least = 1e9;
  for (int i = 0; i < kTimes && (i == 0 || least < kLong); ++i) {
    const double begin = processor_seconds();
    work();
    least = std::min(least, processor_seconds() - begin);
  }
  return least;
}

// Returns the seconds per byte of output for moving and hashing.
double moving_seconds(std::span<const std::byte> sample) {
  std::vector<std::byte> moved(kSampleBytes);
  const IndexMap turned{0, 0, {{kSide, 1, kSide}, {kSide, kSide, 1}}};
  const double seconds = seconds_of([&] {
    move_elements(turned, kElementBytes, sample.first(kSampleBytes), moved);
    hash_block(0, moved);
  });
  return seconds / static_cast<double>(kSampleBytes);
}

// Returns the seconds per byte that the format needs to encode a square chunk.
double coding_seconds(const Format& target, const Encoding& encoding,
                      std::span<const std::byte> sample, std::uint64_t side) {
  Leaf leaf;
  leaf.name = "sample";
  leaf.dtype = DType::bf16;
  leaf.shape = {side, side};
  const Grid grid{leaf.shape, leaf.shape, leaf.shape};
  const PieceForm form = target.form(leaf, grid, encoding);
  std::vector<std::byte> stored(form.stored_bytes());
  std::vector<std::byte> scratch(form.scratch_bytes);
  const auto cell = sample.first(form.cell_bytes);
  const auto begin = stored.begin() + static_cast<std::ptrdiff_t>(form.head_bytes);
  const double seconds = seconds_of([&] {
    std::ranges::copy(cell, begin);
    target.encode(form, {&leaf, &grid, {0, 0}}, stored, scratch);
  });
  return seconds / static_cast<double>(cell.size());
}

// Uses the largest chunk that the sample fills, unless that's too slow.
double coding_seconds(const Format& target, const Encoding& encoding,
                      std::span<const std::byte> sample) {
  const double quick = coding_seconds(target, encoding, sample, kCodedSide);
  for (const std::uint64_t side : kLargerSides) {
    const std::uint64_t bytes = side * side * kElementBytes;
    if (bytes > sample.size() ||
        kSlowerWhenFull * quick * static_cast<double>(bytes) > kMostCodingSeconds)
      continue;
    return coding_seconds(target, encoding, sample, side);
  }
  return quick;
}

// Returns the seconds for decoding, spread over all output bytes.
double decoding_seconds(const Plan& plan, std::span<const std::byte> sample) {
  const Transfer* most = nullptr;
  std::uint64_t decoded = 0;
  for (const Transfer& transfer : plan.model().transfers) {
    if (!transfer.decode) continue;
    const DType to = plan.model().leaves[transfer.target].dtype;
    decoded += packed_bytes(to, transfer.map.count()) * transfer.sources.size();
    if (most == nullptr || transfer.map.count() > most->map.count()) most = &transfer;
  }
  if (most == nullptr) return 0;
  const BlockScale& form = most->decode->form;
  const DType to = plan.model().leaves[most->target].dtype;
  const std::uint64_t count = std::min(kElements, form.rows * form.cols) / 2 * 2;
  if (count == 0) return 0;
  const auto codes = sample.first(count * code_bits(form.code) / 8);
  const std::vector<std::byte> scales(scale_range(form, 0, count).count *
                                      size_bits(form.scale_dtype) / 8);
  const ByteRange zero = zero_range(form, 0, count);
  const std::vector<std::byte> zeros(zero.end - zero.begin);
  std::vector<std::byte> out(packed_bytes(to, count));
  std::uint64_t overflows = 0;
  const double seconds = seconds_of([&] {
    apply_decode(form, {}, to, 0, count, codes, Scales{scales, zeros, 1}, out, overflows);
  });
  const double share = static_cast<double>(decoded) /
                       static_cast<double>(std::max<std::uint64_t>(plan.totals().output_bytes, 1));
  return seconds / static_cast<double>(out.size()) * share;
}

// Returns the largest file. It determines most of the read speed.
const CatalogFile& largest_file(const Catalog& catalog) {
  return *std::ranges::max_element(catalog.files, {}, &CatalogFile::size_bytes);
}

std::string existing(std::string path) {
  while (!exists(path) && parent_path(path) != path) path = parent_path(path);
  return path;
}

}  // namespace

TimeEstimate estimate_time(const Plan& plan, const Format& target, const RunOptions& run,
                           unsigned kernels) {
  const double share = 1.0 / run.workers;
  const double in = static_cast<double>(plan.totals().source_bytes) * share;
  const double out = static_cast<double>(plan.totals().output_bytes) * share;
  if (std::max(in, out) < static_cast<double>(kLeastBytes))
    throw Error(ErrorCode::unsupported, "too little data to estimate; a few seconds at most");
  const StorePath source = largest_file(plan.catalog()).path;
  const std::string directory = existing(out_paths(run.out).parent);
  const auto read = try_reading(source, run.io);
  if (!read)
    throw Error(ErrorCode::unsupported, "the source's files are too small to estimate the time");
  const double written = try_writing(directory);
  const double each = moving_seconds(read->bytes) +
                      coding_seconds(target, plan.options().encoding, read->bytes) +
                      decoding_seconds(plan, read->bytes);
  TimeEstimate time;
  time.read_seconds = in / read->bytes_per_second;
  time.write_seconds = out / written;
  time.processor_seconds = out * each / std::max(1U, kernels);
  time.one_disk = on_one_file_system(source, directory);
  const double disk = time.one_disk ? time.read_seconds + time.write_seconds
                                    : std::max(time.read_seconds, time.write_seconds);
  time.seconds = std::max(disk, time.processor_seconds);
  if (time.processor_seconds >= disk) {
    time.limit = "processor";
  } else {
    time.limit = time.read_seconds >= time.write_seconds ? "reading" : "writing";
  }
  return time;
}

}  // namespace hfshard
