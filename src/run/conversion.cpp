#include "run/conversion.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "run/check/claims.h"
#include "run/check/output_manifest.h"
#include "run/check/read_back.h"
#include "run/check/written_files.h"
#include "run/commit/carried_objects.h"
#include "run/commit/linked_files.h"
#include "run/commit/publish.h"
#include "run/commit/recover.h"
#include "run/engine/budget.h"
#include "run/engine/data_files.h"
#include "run/engine/disk_space.h"
#include "run/engine/far_reads.h"
#include "run/engine/leading.h"
#include "run/engine/packing.h"
#include "run/engine/sources.h"
#include "run/engine/stage_meter.h"
#include "run/engine/stop.h"
#include "run/engine/unit_filler.h"
#include "run/engine/unpacked.h"
#include "run/published.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Clock = std::chrono::steady_clock;

// Most bytes per journal record for a remote source. A killed job has to download so much again.
constexpr std::uint64_t kFarCommitBytes = std::uint64_t{64} << 20;

// Writes regions, and journals groups of them after their data is durable.
class StagingSink final : public TileSink {
 public:
  StagingSink(const Plan& plan, const OpenSources& sources, const JournalState& done,
              DataFiles& files, JournalWriter& journal, Arrivals* arrivals, StageMeter& meter)
      : plan_(plan),
        sources_(sources),
        files_(files),
        journal_(journal),
        arrivals_(arrivals),
        meter_(meter),
        since_(Clock::now()) {
    if (plan.is_packed()) packing_.emplace(plan, done);
    const std::vector<bool> far = far_files(plan.catalog());
    if (std::ranges::count(far, true) > 0) most_bytes_ = std::min(most_bytes_, kFarCommitBytes);
  }

  bool places() const override { return packing_.has_value(); }
  void place(Tile& tile) override {
    tile.offset_bytes = packing_->place(tile.begin_address, tile.lengths);
  }

  void store(const Tile& tile, std::span<const std::byte> region) override {
    files_.write(tile.file, tile.offset_bytes, region);
  }

  void commit(Tile& tile) override {
    if (pending_.end != 0 && tile.begin_address != pending_.end)
      flush();  // resumed past finished work
    if (pending_.end == 0) {
      pending_.begin = tile.begin_address;
      first_file_ = tile.file;
    }
    pending_.end = tile.end_address;
    last_file_ = tile.file;
    for (const SlotDigest& digest : tile.digests) sums_[digest.slot] += digest.sum;
    pending_.overflows += tile.overflows;
    std::ranges::copy(tile.lengths, std::back_inserter(pending_.lengths));
    written_bytes_ += tile.stored_bytes;
    meter_.advanced(tile.region_bytes());
    files_.written(tile.file, {tile.offset_bytes, tile.offset_bytes + tile.stored_bytes});
    const auto waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since_);
    if (pending_.end - pending_.begin >= most_bytes_ ||
        waited.count() >= static_cast<std::int64_t>(plan_.limits().commit_ms)) {
      flush();
    }
  }

  // Data first, then the record that speaks of it; and only of data that is of one source.
  void flush() {
    if (pending_.end == 0) return;
    files_.sync(first_file_, last_file_);
    check_unchanged(sources_);
    pending_.digests.clear();
    for (const auto& [slot, sum] : sums_) pending_.digests.push_back({slot, sum});
    journal_.append(pending_);
    if (arrivals_ != nullptr) arrivals_->recorded();
    ++records_;
    sums_.clear();
    pending_ = {};
    since_ = Clock::now();
  }

  std::uint64_t written_bytes() const { return written_bytes_; }
  std::uint64_t records() const { return records_; }

 private:
  const Plan& plan_;
  const OpenSources& sources_;
  DataFiles& files_;
  JournalWriter& journal_;
  Arrivals* arrivals_;  // null: none are kept
  StageMeter& meter_;
  std::optional<Packing> packing_;
  JournalRecord pending_;
  std::map<std::uint64_t, Digest128> sums_;
  std::uint32_t first_file_ = 0;
  std::uint32_t last_file_ = 0;
  Clock::time_point since_;  // the last record, or the begin
  std::uint64_t most_bytes_ = plan_.limits().commit_bytes;
  std::uint64_t written_bytes_ = 0;
  std::uint64_t records_ = 0;
};

// The same work, nowhere to put it.
class DiscardingSink final : public TileSink {
 public:
  explicit DiscardingSink(StageMeter& meter) : meter_(meter) {}
  void store(const Tile&, std::span<const std::byte>) override {}
  void commit(Tile& tile) override {
    overflows_ += tile.overflows;
    written_bytes_ += tile.region_bytes();
    meter_.advanced(tile.region_bytes());
  }
  std::uint64_t written_bytes() const { return written_bytes_; }
  std::uint64_t overflows() const { return overflows_; }

 private:
  StageMeter& meter_;
  std::uint64_t overflows_ = 0;
  std::uint64_t written_bytes_ = 0;
};

// Arrays that are unpacked for it lie where those of the run do.
void check_claims_in(const Plan& plan, const std::string& directory, const RunOptions& options) {
  RunOptions there = options;
  there.scratch_directory = directory;
  check_claims(plan, there);
}

struct Work {
  std::function<void(Tile&)> admitted;
  std::function<void(Tile&)> apply;
};

// Moves an encoded chunk behind those before it, which is never past its own place.
void pack(Tile& tile, std::span<const std::byte> chunk, const Limits& limits) {
  const auto to = tile.block.bytes().subspan(tile.stored_bytes);
  const std::uint64_t size = round_up(std::uint64_t{chunk.size()}, limits.alignment_bytes);
  std::memmove(to.data(), chunk.data(), chunk.size());
  std::ranges::fill(to.subspan(chunk.size(), size - chunk.size()), std::byte{0});
  tile.lengths.push_back(static_cast<std::uint32_t>(chunk.size()));
  tile.stored_bytes += size;
}

Work make_work(const Plan& plan, const Format& target, const UnitFiller& filler,
               UnpackedArrays& unpacked, Arena& arena) {
  Work work;
  work.admitted = [&](Tile& tile) {
    tile.uses = unpacked.make_ready(tile.units.front(), arena);
    for (const UnitRef& unit : tile.units) filler.hint(unit);
  };
  work.apply = [&](Tile& tile) {
    auto region = tile.region();
    const auto scratch = tile.scratch();
    if (plan.is_packed()) tile.stored_bytes = 0;
    for (const UnitRef& unit : tile.units) {
      const std::uint32_t leaf = plan.group_of(unit).leaf;
      const UnitForm& form = plan.units()[leaf];
      const auto part = region.first(plan.region_bytes(unit));
      region = region.subspan(part.size());
      tile.overflows += filler.fill(unit, part, scratch, tile.digests);
      if (form.slices) continue;  // nothing is around them
      auto rest = part;
      for (const Shape& at : unit_chunks(plan, unit)) {
        const auto chunk = rest.first(form.form.stored_bytes());
        const std::uint64_t length = target.encode(
            form.form, {&plan.model().leaves[leaf], &plan.grids()[leaf], at}, chunk, scratch);
        if (plan.is_packed()) pack(tile, chunk.first(length), plan.limits());
        rest = rest.subspan(std::min<std::uint64_t>(form.stride_bytes, rest.size()));
      }
    }
  };
  return work;
}

RunResult run_discarding(const Plan& plan, const Format& target, const RunOptions& options,
                         Reporter& reporter, const std::function<void(Stage, const Tile&)>& hook) {
  const auto began = Clock::now();
  OpenSources sources = open_sources(plan.catalog(), options.io, plan.limits().cached_bytes);
  const unsigned threads = pipeline_threads(options);
  const Budget budget = make_budget(plan, options.max_memory_bytes, threads, 0);
  check_scratch_disk(options.scratch_directory, scratch_disk_bytes(plan, budget));
  check_claims(plan, options);
  Arena arena(budget.arena_bytes);
  StageMeter meter(reporter, threads, link_bytes(plan));
  const ByteRange share = worker_share(plan, options.worker, options.workers);
  UnpackedArrays unpacked(plan, options.scratch_directory, budget.unpack_bytes, sources, options);
  FarReads ahead(plan, sources, share, nullptr, budget);
  const UnitFiller filler(plan, ahead.reads(), &meter);
  const Work work = make_work(plan, target, filler, unpacked, arena);
  DiscardingSink sink(meter);
  reporter.started(share.end - share.begin, 0);
  TileCursor cursor(plan, share.begin, share.end, nullptr, arena.size_bytes());
  if (!run_pipeline(cursor, arena, work.admitted, work.apply, sink,
                    {threads, options.stop, hook, &meter})) {
    throw_stopped(options);
  }
  check_unchanged(sources);
  RunResult result;
  result.output_bytes = plan.totals().output_bytes;
  result.written_bytes = sink.written_bytes();
  result.overflows = sink.overflows();
  result.source_bytes = plan.totals().source_bytes;
  result.reads = choices_of(sources);
  result.network = ahead.network_use();
  result.peak_arena_bytes = arena.peak_bytes();
  result.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return result;
}

// A run that died between its rename and the removal of its staging directory left the latter
// behind.
void remove_leftovers(const Plan& plan, const OutPaths& paths) {
  if (!exists(paths.staging)) return;
  const Staging staging(paths, false);  // refuses one in use
  staging.check(plan);                  // and another plan's
  staging.remove();
}

// The nearest directory at or above `path` that is there.
std::string existing_parent(std::string path) {
  while (!exists(path) && parent_path(path) != path) path = parent_path(path);
  return path;
}

// Makes the names of all directories from `bottom` up to `top` durable. Without them the names of
// files don't last. Every run does this, since the run that made a directory can have been killed.
void sync_down(const std::string& top, const std::string& bottom) {
  for (std::string at = bottom;; at = parent_path(at)) {
    fsync_directory(at);
    if (at == top || parent_path(at) == at) return;
  }
}

// Makes the staged item and the directory of its data files. Returns the item.
std::string make_item(const Plan& plan, const OutPaths& paths, const std::string& known) {
  std::string item = plan.item_directory(paths.step);
  const std::string data = parent_path(join_path(item, plan.files().data_file(0, 1)));
  make_directories(data);
  sync_down(known, data);
  return item;
}

RunResult published_result(const Plan& plan, const RunOptions& options) {
  RunResult result;
  result.output_bytes = plan.totals().output_bytes + plan.model().object_bytes();
  const OutPaths paths = out_paths(plan, options.out);
  result.path = plan.item_directory(published_step(plan, paths));
  return result;
}

// Writes the index of the staged data files.
OutputDigests describe(const Plan& plan, const Placements& placed, const Format& target,
                       const Staging& staging, const RunOptions& options,
                       const std::vector<Digest128>& sums,
                       const std::vector<std::string>& objects) {
  OutputDigests digests = output_digests(plan, sums, objects);
  if (const std::string& origin = plan.model().origin; !origin.empty())
    write_staged(staging, options, {kOriginName, [&](auto& sink) { copy_manifest(origin, sink); }});
  write_index(plan, placed, target, staging, options, digests.root);
  return digests;
}

// Writes hfshard.json, which speaks of all other staged files.
void write_record(const Plan& plan, const OutputDigests& digests, const Staging& staging,
                  const RunOptions& options) {
  const std::string& side = plan.files().side_directory;
  const WrittenFiles files =
      written_files(plan, staging.paths().step,
                    side.empty() ? std::string() : join_path(staging.paths().tree, side),
                    staging.paths().tree, options);
  write_staged(staging, options, {kManifestName, [&](const ByteSink& sink) {
                                    write_manifest(plan, digests, files, sink);
                                  }});
}

void finish(const Plan& plan, const Format& target, const Staging& staging,
            const RunOptions& options, Reporter& reporter, RunResult& result) {
  JournalState state = read_journals(staging.paths().staging, plan);
  if (!state.covers(0, plan.end_address())) {
    std::uint64_t at = 0;
    for (const JournalRecord& record : state.done) {
      if (record.begin > at) break;
      at = record.end;
    }
    throw Error(ErrorCode::conflict,
                fmt::format("{} of {} are missing, from data file {} on",
                            human_bytes(plan.end_address() - state.done_bytes()),
                            human_bytes(plan.end_address()), plan.file_at(at)))
        .in_file(staging.paths().staging)
        .hint("run the missing workers, or the convert command with --resume");
  }
  check_output(plan, target, options);
  std::optional<PackedPlacements> packed;
  if (plan.is_packed()) result.output_bytes = packed.emplace(plan, state).total_bytes();
  const Placements& placed = packed ? static_cast<const Placements&>(*packed) : plan;
  const std::vector<std::string> objects = write_objects(plan, staging, options);
  OutputDigests digests = describe(plan, placed, target, staging, options, state.sums, objects);
  LinkedShards linked;
  if (plan.options().link) {
    const std::string& step = staging.paths().step;
    linked = link_shards(plan, step, plan.item_directory(step), options.shards);
    if (plan.options().digests) {
      digest_linked(*target.open(step), plan, options, state.sums, reporter);
      digests = describe(plan, placed, target, staging, options, state.sums, objects);
    }
  }
  packed.reset();
  publish(plan, target, staging, options, linked.files,
          [&] { write_record(plan, digests, staging, options); });
  result.awaited = std::move(linked.awaited);
  result.published = true;
  result.journal_records = state.records;
  result.overflows = state.overflows;
  result.root_digest = digests.root;
}

}  // namespace

ByteRange worker_share(const Plan& plan, std::uint32_t worker, std::uint32_t workers) {
  const std::uint64_t files = plan.file_count();
  return {plan.file_begin()[files * worker / workers],
          plan.file_begin()[files * (worker + 1) / workers]};
}

namespace {

bool is_stop(const RunOptions& options, const Error& error) {
  return error.code() == ErrorCode::cancelled && options.stop != nullptr && options.stop->load();
}

// Whether a pipeline came to its end, and was not stopped: while it waited for a network, too.
template <typename Run>
bool is_complete(const RunOptions& options, const Run& run) {
  try {
    return run();
  } catch (const Error& error) {  // stopped while it waited
    if (!is_stop(options, error)) throw;
    return false;
  }
}

RunResult run_staged(const Plan& plan, const Format& target, const RunOptions& options,
                     Reporter& reporter, const std::function<void(Stage, const Tile&)>& hook) {
  const auto began = Clock::now();
  RunResult result = published_result(plan, options);
  const OutPaths paths = out_paths(plan, options.out);
  if (options.resume && is_published(plan, target, paths)) {
    check_published(plan, paths, options, reporter);
    remove_leftovers(plan, paths);
    result.already_done = true;
    return result;
  }
  // Beside what stands nothing may be made; what an interrupted run has left is put back first.
  if (!exists(paths.staging)) check_output(plan, target, options);
  OpenSources sources = open_sources(plan.catalog(), options.io, plan.limits().cached_bytes);
  const unsigned threads = pipeline_threads(options);
  const Budget budget = make_budget(plan, options.max_memory_bytes, threads, 0);
  const std::string known = existing_parent(paths.parent);
  if (!exists(paths.staging)) check_output_disk(plan, paths.parent, paths.tree, budget, 0);
  if (options.worker == 0) check_objects(plan, options);
  Staging staging(paths, options.workers > 1);
  if (ended_meanwhile(plan, target, options, staging)) {
    check_published(plan, paths, options);
    result.already_done = true;
    return result;
  }
  staging.begin(plan);
  const JournalState done = read_journals(paths.staging, plan);
  const std::uint64_t spare =
      check_output_disk(plan, paths.parent, paths.tree, budget, done.done_bytes());
  const std::string root = make_item(plan, paths, known);
  if (options.worker == 0) check_claims_in(plan, paths.staging, options);
  auto arena = std::make_unique<Arena>(budget.arena_bytes);
  StageMeter meter(reporter, threads, link_bytes(plan));
  const ByteRange share = worker_share(plan, options.worker, options.workers);
  UnpackedArrays unpacked(plan, paths.staging, budget.unpack_bytes, sources, options);
  // The journal exists first: without one, the next run takes nothing of this directory.
  JournalWriter journal(paths.staging, plan.id(), options.worker, options.workers);
  const auto arrivals = keep_arrivals(plan, sources, paths.staging, options, spare);
  std::optional<FarReads> ahead(std::in_place, plan, sources, share, &done, budget);
  const UnitFiller filler(plan, ahead->reads(), &meter);
  const Work work = make_work(plan, target, filler, unpacked, *arena);
  DataFiles files(plan, root, leading_of(plan, target), options.io, plan.limits().cached_bytes);
  make_empty_files(plan, files);
  StagingSink sink(plan, sources, done, files, journal, arrivals.get(), meter);
  TileCursor cursor(plan, share.begin, share.end, &done, arena->size_bytes());
  const FoundWork found{done.done_bytes(share.begin, share.end), share.end - share.begin,
                        done.workers, options.resume, arrivals ? arrivals->found_bytes() : 0};
  if (found.bytes > 0 || found.arrived_bytes > 0 || found.asked) reporter.resumed(found);
  reporter.started(found.total_bytes, found.bytes);
  const bool complete = is_complete(options, [&] {
    return run_pipeline(cursor, *arena, work.admitted, work.apply, sink,
                        {threads, options.stop, hook, &meter});
  });
  sink.flush();
  if (!complete) throw_stopped(options);
  if (arrivals) arrivals->remove();
  result.written_bytes = sink.written_bytes();
  result.skipped_bytes = stored_bytes(plan, done);
  result.writes = files.choices();
  result.source_bytes = plan.totals().source_bytes;
  result.reads = choices_of(sources);
  result.network = ahead->network_use();
  result.peak_arena_bytes = arena->peak_bytes();
  ahead.reset();
  arena.reset();  // publishing may need one of its own
  result.journal_records = done.records + sink.records();
  if (options.workers == 1) finish(plan, target, staging, options, reporter, result);
  result.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return result;
}

}  // namespace

RunResult run_convert(const Plan& plan, const Format& target, const RunOptions& options,
                      Reporter& reporter, const std::function<void(Stage, const Tile&)>& hook) {
  if (target.discards()) return run_discarding(plan, target, options, reporter, hook);
  try {
    return run_staged(plan, target, options, reporter, hook);
  } catch (const Error& error) {  // the error says what is kept
    if (is_stop(options, error) && !has_kept(plan, target, options)) throw_stopped(options, false);
    throw;
  }
}

RunResult run_finalize(const Plan& plan, const Format& target, const RunOptions& options,
                       Reporter& reporter) {
  const auto began = Clock::now();
  RunResult result = published_result(plan, options);
  const OutPaths paths = out_paths(plan, options.out);
  Staging staging(paths, false);
  if (is_published(plan, target, paths) && (staging.published() || !has_journals(paths))) {
    staging.remove();
    result.already_done = true;
    return result;
  }
  staging.begin(plan);
  check_claims_in(plan, paths.staging, options);  // the first worker may have had nothing to write
  reporter.started(plan.end_address(), plan.end_address());
  finish(plan, target, staging, options, reporter, result);
  result.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return result;
}

}  // namespace hfshard
