// convert_twice SOURCE SMALL LARGE: converts SOURCE into two outputs at once, and verifies both.
// The process itself holds more memory than the smaller budget. For each, it prints the root
// digest, --max-memory, the peak of its buffers and the differences that verify found. Then it
// prints the peak of the process.

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include <hfshard/hfshard.h>
#include <sys/resource.h>

namespace {

// Makes each run wait until the other has begun.
class Meeting final : public hfshard::Reporter {
 public:
  explicit Meeting(std::barrier<>& both) : both_(both) {}
  void started(std::uint64_t /*total_bytes*/, std::uint64_t /*already_done_bytes*/) override {
    both_.arrive_and_wait();
  }

 private:
  std::barrier<>& both_;
};

std::string convert(const char* source, const char* out, std::uint64_t mib, unsigned jobs,
                    std::barrier<>& both) {
  hfshard::RunOptions run;
  run.out = out;
  run.max_memory_bytes = mib << 20;
  run.jobs = jobs;
  run.io_threads = 1;
  Meeting meeting(both);
  try {
    const hfshard::RunResult done = hfshard::convert(source, {}, run, meeting).run;
    const hfshard::VerifyResult found = hfshard::verify(out, source, run, meeting);
    return done.root_digest + " " + std::to_string(run.max_memory_bytes) + " " +
           std::to_string(done.peak_arena_bytes) + " " + std::to_string(found.differences.size());
  } catch (const hfshard::Error& error) {
    std::fprintf(stderr, "%s\n", error.format().c_str());
    std::_Exit(hfshard::exit_status(error.code()));  // the other run waits for this one
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto own = std::make_unique_for_overwrite<char[]>(std::size_t{300} << 20);
  std::barrier<> both(2);
  auto large = std::async(std::launch::async, convert, argv[1], argv[3], 192, 3U, std::ref(both));
  std::printf("%s\n", convert(argv[1], argv[2], 72, 1, both).c_str());
  std::printf("%s\n", large.get().c_str());
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%ld\n", usage.ru_maxrss * 1024);
  return own == nullptr ? 1 : 0;
}
