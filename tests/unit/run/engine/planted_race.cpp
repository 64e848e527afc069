// The filters of a pipeline share a plain counter, which the thread sanitizer must report. So the
// annotations of run/engine/handover.h only hide the hand-over itself. Built only under tsan. The
// test expects the sanitizer's exit status (tests/CMakeLists.txt).

#include <atomic>
#include <cstdio>
#include <thread>

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
  std::atomic<int> entered = 0;
  const auto racing = [&](Tile&) {
    constexpr int kPaired = 16;  // the first filters wait, each for the one it runs together with
    // Relaxed, so that nothing orders the two.
    const int number = entered.fetch_add(1, std::memory_order_relaxed);
    const int partner = number < kPaired ? number | 1 : number;
    while (entered.load(std::memory_order_relaxed) <= partner) std::this_thread::yield();
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
