// The filters of a pipeline share a plain counter, which the thread sanitizer must report. So the
// annotations of run/engine/handover.h only hide the hand-over itself. Built only under tsan. The
// test expects the sanitizer's exit status (tests/CMakeLists.txt).

#include <atomic>
#include <cstdio>

#include "unit/run/run_support.h"

int main() {
  using namespace hfshard;
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  Arena arena(std::uint64_t{4} << 20);
  struct Sink final : TileSink {
    void store(const Tile&, std::span<const std::byte>) override {}
    void commit(Tile&) override {}
  } sink;
  std::uint64_t shared = 0;
  std::atomic<int> inside = 0;
  const auto racing = [&](Tile&) {
    // Two filters run at the same time. Relaxed, so that nothing orders them.
    inside.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < 10'000'000 && inside.load(std::memory_order_relaxed) < 2; ++i) continue;
    ++shared;
  };
  TileCursor cursor(plan, 0, plan.end_address(), nullptr, arena.size_bytes());
  PipelineOptions options;
  options.threads = 4;
  run_pipeline(
      cursor, arena, [](Tile&) {}, racing, sink, options);
  std::printf("no race was reported; %llu tiles\n", static_cast<unsigned long long>(shared));
  return 0;
}
