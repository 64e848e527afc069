#include "run/engine/cpus.h"

#include <optional>
#include <sched.h>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "run/engine/pipeline.h"
#include "run/engine/tbb_stages.h"
#include "support/temp_dir.h"
#include <sys/syscall.h>
#include <sys/wait.h>

namespace hfshard {
namespace {

// A system's /proc and cgroup files, as far as hfshard reads them.
class CpusTest : public testing::Test {
 protected:
  void cgroup(const std::string& text) const { write_text(dir_ / "proc/self/cgroup", text); }
  void mounts(const std::string& text) const { write_text(dir_ / "proc/self/mountinfo", text); }
  void group(const std::string& path, const std::string& text) const {
    write_text(dir_ / path.substr(1), text);
  }
  std::optional<unsigned> found() const { return quota_cpus(dir_.path()); }

  TempDir dir_;
};

constexpr const char* kSecond =
    "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "30 21 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kFirst =
    "40 32 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "41 32 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

TEST_F(CpusTest, WithoutGroupsThereIsNoQuota) {
  EXPECT_EQ(found(), std::nullopt);
  cgroup("0::/user.slice\n");
  mounts(kSecond);
  EXPECT_EQ(found(), std::nullopt);
  group("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(found(), std::nullopt);
  for (const char* damaged : {"", "\n", "100000\n", "x 100000\n", "100000 0\n", "1 2 3\n",
                              "100000x 100000\n", "100000 100000x\n"}) {
    group("/sys/fs/cgroup/user.slice/cpu.max", damaged);
    EXPECT_EQ(found(), std::nullopt) << damaged;
  }
}

TEST_F(CpusTest, LinesThatAreCutOffAreSkipped) {
  cgroup("0\n0:x\n0::/a\n");
  group("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  for (const char* damaged : {"30 21 0:26 / /sys/fs/cgroup - cgroup2 cgroup2 rw\n",
                              "30 21 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2\n"}) {
    mounts(damaged);
    EXPECT_EQ(found(), std::nullopt) << damaged;
    mounts(damaged + std::string(kSecond));
    EXPECT_EQ(found(), 3U) << damaged;
  }
}

TEST_F(CpusTest, AQuotaIsRoundedUp) {
  cgroup("0::/a\n");
  mounts(kSecond);
  for (const auto& [text, cpus] :
       std::vector<std::pair<const char*, unsigned>>{{"100000 100000\n", 1},
                                                     {"100001 100000\n", 2},
                                                     {"1000 100000\n", 1},
                                                     {"350000 100000\n", 4},
                                                     {"400000 50000\n", 8}}) {
    group("/sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(found(), cpus) << text;
  }
}

TEST_F(CpusTest, TheSmallestQuotaAboveCounts) {
  cgroup("0::/pods/pod1/main\n");
  mounts(kSecond);
  group("/sys/fs/cgroup/pods/pod1/main/cpu.max", "800000 100000\n");
  group("/sys/fs/cgroup/pods/pod1/cpu.max", "300000 100000\n");
  group("/sys/fs/cgroup/pods/cpu.max", "max 100000\n");
  EXPECT_EQ(found(), 3U);
  group("/sys/fs/cgroup/cpu.max", "200000 100000\n");  // a namespace's own root can have one
  EXPECT_EQ(found(), 2U);
}

TEST_F(CpusTest, VersionOneHasTwoFiles) {
  cgroup("5:cpuset:/elsewhere\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n");
  mounts(kFirst);
  const std::string at = "/sys/fs/cgroup/cpu,cpuacct/docker/abc/";
  group(at + "cpu.cfs_period_us", "100000\n");
  group(at + "cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(found(), std::nullopt);
  group(at + "cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(found(), 2U);
}

// Without a cgroup namespace, a container gets its path on the host, but only its own group is
// mounted.
TEST_F(CpusTest, AContainersGroupStandsAtTheMountPoint) {
  cgroup("4:cpu,cpuacct:/docker/abc/inner\n");
  mounts("41 32 0:28 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n");
  group("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  group("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(found(), 4U);
  group("/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n");
  group("/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(found(), 1U);
}

TEST_F(CpusTest, BothVersionsAreLookedAt) {
  cgroup("4:cpu,cpuacct:/\n0::/\n");
  mounts(std::string(kSecond) + kFirst);
  group("/sys/fs/cgroup/cpu.max", "900000 100000\n");
  group("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  group("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "500000\n");
  EXPECT_EQ(found(), 5U);
}

// The hierarchy of the first version is mounted, and this process isn't in it.
TEST_F(CpusTest, AHierarchyWithoutAGroupOfTheProcessHasNoQuota) {
  cgroup("0::/\n");
  mounts(kFirst + std::string(kSecond));
  group("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  group("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(found(), std::nullopt);
  group("/sys/fs/cgroup/cpu.max", "900000 100000\n");
  EXPECT_EQ(found(), 9U);
}

// Returns how a child ends that has this root directory: 0 if it then counts `expected` CPUs, and 1
// if not. Empty if the system doesn't let it change its root.
std::optional<int> end_below(const std::string& root, unsigned expected) {
  constexpr int kRefused = 9;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool moved = ::chroot(root.c_str()) == 0 ||
                       (::unshare(CLONE_NEWUSER) == 0 && ::chroot(root.c_str()) == 0);
    const int status = !moved ? kRefused : usable_cpus() == expected ? 0 : 1;
    ::syscall(SYS_exit_group, status);  // the thread sanitizer takes no _exit here
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kRefused) return std::nullopt;
  return WEXITSTATUS(status);
}

TEST_F(CpusTest, AProcessUsesNoMoreThanItsMaskAndItsQuota) {
  const unsigned bound = process_concurrency();
  cgroup("0::/a\n");
  mounts(kSecond);
  if (!end_below(dir_.path(), bound)) GTEST_SKIP() << "this system needs root for chroot";
  EXPECT_EQ(end_below(dir_.path(), bound), 0) << "without a quota";
  group("/sys/fs/cgroup/a/cpu.max", "100000000 1000\n");  // 100,000 CPUs
  EXPECT_EQ(end_below(dir_.path(), bound), 0);
  group("/sys/fs/cgroup/a/cpu.max", "100000 100000\n");
  EXPECT_EQ(end_below(dir_.path(), 1), 0);
}

TEST(Cpus, AreNoMoreThanTheAffinityMaskHas) {
  cpu_set_t mask;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
  EXPECT_GE(usable_cpus(), 1U);
  EXPECT_LE(usable_cpus(), static_cast<unsigned>(CPU_COUNT(&mask)));
  EXPECT_LE(usable_cpus(), process_concurrency());
}

TEST(Cpus, AreTheKernelThreadsUnlessJobsSaysMore) {
  RunOptions options;
  options.io_threads = 3;
  EXPECT_EQ(kernel_threads(options), usable_cpus());
  EXPECT_EQ(pipeline_threads(options), usable_cpus() + 3);
  options.jobs = 40;
  EXPECT_EQ(kernel_threads(options), 40U);
  EXPECT_EQ(pipeline_threads(options), 43U);
}

}  // namespace
}  // namespace hfshard
