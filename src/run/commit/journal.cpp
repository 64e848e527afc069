#include "run/commit/journal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32c.h"
#include "bytes/local/files.h"
#include "bytes/local/source.h"
#include "bytes/local/syscalls.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint32_t kMagic = 0x324a4648;  // "HFJ2"
constexpr std::size_t kHeader = 8;
constexpr std::size_t kFixed = 32 + 4 * 8;
constexpr std::size_t kPerSlot = 24;
constexpr std::size_t kPerChunk = 4;
// A run of years: it writes one for each GiB, or each five seconds.
constexpr std::uint64_t kMaxRecords = std::uint64_t{1} << 20;
constexpr std::uint64_t kBufferBytes = std::uint64_t{64} << 10;

void put_plan_id(std::byte* to, const std::string& plan_id) {
  for (std::size_t i = 0; i < 32; ++i) {
    unsigned value = 0;
    std::from_chars(plan_id.data() + 2 * i, plan_id.data() + 2 * i + 2, value, 16);
    to[i] = static_cast<std::byte>(value);
  }
}

std::vector<std::byte> encode_record(const JournalRecord& record, const std::string& plan_id) {
  const std::size_t payload =
      kFixed + record.digests.size() * kPerSlot + record.lengths.size() * kPerChunk;
  std::vector<std::byte> out(kHeader + payload + 4);
  store_le(out.data(), kMagic);
  store_le(out.data() + 4, static_cast<std::uint32_t>(payload));
  std::byte* at = out.data() + kHeader;
  put_plan_id(at, plan_id);
  store_le(at + 32, record.begin);
  store_le(at + 40, record.end);
  store_le(at + 48, record.overflows);
  store_le(at + 56, static_cast<std::uint64_t>(record.digests.size()));
  at += kFixed;
  for (const SlotDigest& digest : record.digests) {
    store_le(at, digest.slot);
    store_le(at + 8, digest.sum.low);
    store_le(at + 16, digest.sum.high);
    at += kPerSlot;
  }
  for (const std::uint32_t length : record.lengths) {
    store_le(at, length);
    at += kPerChunk;
  }
  store_le(at, crc32c(std::span(out).first(kHeader + payload)));
  return out;
}

// The header of a record, and its place.
struct RecordHead {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t overflows = 0;
  std::uint64_t digests = 0;
  std::uint64_t lengths = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t payload_bytes = 0;
  std::uint32_t journal = 0;
  std::uint64_t size_bytes() const noexcept { return kHeader + payload_bytes + 4; }
};

// Reads what is in front of the digests; nothing if no record can begin so.
std::optional<RecordHead> read_head(const Source& file, std::uint64_t offset_bytes,
                                    const std::string& plan_id) {
  const std::uint64_t left = file.size_bytes() - offset_bytes;
  if (left < kHeader + kFixed + 4) return std::nullopt;
  std::array<std::byte, kHeader + kFixed> bytes;
  file.read_at(offset_bytes, bytes);
  RecordHead out;
  out.offset_bytes = offset_bytes;
  out.payload_bytes = load_le<std::uint32_t>(&bytes[4]);
  std::array<std::byte, 32> id;
  put_plan_id(id.data(), plan_id);
  const std::byte* at = &bytes[kHeader];
  if (load_le<std::uint32_t>(bytes.data()) != kMagic || !std::equal(id.begin(), id.end(), at) ||
      out.payload_bytes < kFixed || out.payload_bytes > left - kHeader - 4) {
    return std::nullopt;
  }
  out.begin = load_le<std::uint64_t>(at + 32);
  out.end = load_le<std::uint64_t>(at + 40);
  out.overflows = load_le<std::uint64_t>(at + 48);
  out.digests = load_le<std::uint64_t>(at + 56);
  const std::uint64_t rest = out.payload_bytes - kFixed;
  if (out.begin >= out.end || out.digests > rest / kPerSlot) return std::nullopt;
  const std::uint64_t lengths = rest - out.digests * kPerSlot;
  if (lengths % kPerChunk != 0) return std::nullopt;
  out.lengths = lengths / kPerChunk;
  return out;
}

bool has_its_checksum(const Source& file, const RecordHead& head) {
  std::vector<std::byte> buffer(std::min(kBufferBytes, head.size_bytes()));
  std::uint32_t crc = crc32c({});
  const std::uint64_t end = head.offset_bytes + head.size_bytes() - 4;
  for (std::uint64_t at = head.offset_bytes; at < end;) {
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), end - at));
    file.read_at(at, part);
    crc = crc32c_extend(crc, part);
    at += part.size();
  }
  std::array<std::byte, 4> stored;
  file.read_at(end, stored);
  return crc == load_le<std::uint32_t>(stored.data());
}

// A record whose head was read.
JournalRecord read_record(const Source& file, const RecordHead& head) {
  std::vector<std::byte> bytes(head.payload_bytes - kFixed);
  file.read_at(head.offset_bytes + kHeader + kFixed, bytes);
  JournalRecord out{head.begin, head.end, {}, head.overflows};
  const std::byte* at = bytes.data();
  for (std::uint64_t i = 0; i < head.digests; ++i, at += kPerSlot) {
    out.digests.push_back({load_le<std::uint64_t>(at),
                           {load_le<std::uint64_t>(at + 8), load_le<std::uint64_t>(at + 16)}});
  }
  for (std::uint64_t i = 0; i < head.lengths; ++i, at += kPerChunk)
    out.lengths.push_back(load_le<std::uint32_t>(at));
  return out;
}

// The unit that begins at an address, which may be any.
std::optional<UnitRef> unit_beginning(const Layout& layout, std::uint64_t address) {
  if (address == layout.end_address()) return layout.unit_at(address);
  const auto after = std::ranges::upper_bound(layout.groups(), address, {}, &Group::address);
  if (after == layout.groups().begin()) return std::nullopt;
  const auto group = static_cast<std::uint32_t>(after - layout.groups().begin() - 1);
  std::uint64_t low = 0;
  std::uint64_t high = layout.units()[layout.groups()[group].leaf].units_per_group;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const std::uint64_t begin = layout.address_of({group, middle});
    if (begin == address) return UnitRef{group, middle};
    (begin < address ? low : high) = begin < address ? middle + 1 : middle;
  }
  return std::nullopt;
}

// Whether a run of the plan writes a record of such places and sizes.
bool fits(const Plan& plan, const RecordHead& head) {
  if (head.end > plan.end_address() || head.digests > plan.model().digest_slots()) return false;
  const auto first = unit_beginning(plan, head.begin);
  const auto end = unit_beginning(plan, head.end);
  if (!first || !end) return false;
  return head.lengths ==
         (plan.is_packed() ? plan.chunks_before(*end) - plan.chunks_before(*first) : 0);
}

// The same for what it holds. Compressed chunks never take more than their units' addresses.
bool fits(const Plan& plan, const JournalRecord& record) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t length : record.lengths) {
    if (length == 0) return false;
    bytes += round_up(std::uint64_t{length}, plan.limits().alignment_bytes);
  }
  return bytes <= record.end - record.begin &&
         std::ranges::all_of(record.digests, [&](const SlotDigest& digest) {
           return digest.slot < plan.model().digest_slots();
         });
}

// Weighted interval scheduling: the disjoint records that cover most bytes, ascending.
std::vector<RecordHead> select_disjoint(std::vector<RecordHead> records) {
  std::ranges::stable_sort(records, {}, &RecordHead::end);
  const std::size_t n = records.size();
  std::vector<std::uint64_t> best{0};
  std::vector<std::size_t> before(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto end = records.begin() + static_cast<std::ptrdiff_t>(i);
    const auto fit = std::upper_bound(
        records.begin(), end, records[i].begin,
        [](std::uint64_t begin, const RecordHead& record) { return begin < record.end; });
    before[i] = static_cast<std::size_t>(fit - records.begin());
    best.push_back(std::max(best[i], best[before[i]] + records[i].end - records[i].begin));
  }
  std::vector<RecordHead> out;
  for (std::size_t i = n; i > 0;) {
    if (best[i] == best[i - 1]) {
      --i;
      continue;
    }
    out.push_back(records[i - 1]);
    i = before[i - 1];
  }
  std::ranges::reverse(out);
  return out;
}

// Claims the next free attempt number; two copies of one worker get two journals.
std::string claim_attempt(const std::string& staging, std::uint32_t worker, std::uint32_t workers) {
  for (int attempt = 0;; ++attempt) {
    std::string path =
        join_path(staging, fmt::format("journal.{}-{}.{:04}", worker, workers, attempt));
    const sys::Descriptor made(
        sys::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (made.get() >= 0) return path;
    if (errno != EEXIST) throw sys::failure("create the journal", path, errno);
  }
}

}  // namespace

JournalWriter::JournalWriter(const std::string& staging, std::string plan_id, std::uint32_t worker,
                             std::uint32_t workers)
    : file_(claim_attempt(staging, worker, workers)), plan_id_(std::move(plan_id)) {
  fsync_directory(staging);
}

void JournalWriter::append(const JournalRecord& record) {
  const std::vector<std::byte> bytes = encode_record(record, plan_id_);
  file_.write_at(size_bytes_, bytes);
  size_bytes_ += bytes.size();
  file_.sync_data();
}

namespace {

// The records of one journal that count.
void scan_journal(const Source& file, std::uint32_t journal, const std::string& plan_id,
                  const Plan* plan, std::vector<RecordHead>& out) {
  std::uint64_t end = 0;
  for (std::uint64_t at = 0; out.size() < kMaxRecords;) {
    auto head = read_head(file, at, plan_id);
    if (!head || head->begin < end || (plan != nullptr && !fits(*plan, *head)) ||
        !has_its_checksum(file, *head) ||
        (plan != nullptr && !fits(*plan, read_record(file, *head)))) {
      return;
    }
    head->journal = journal;
    end = head->end;
    at += head->size_bytes();
    out.push_back(*head);
  }
}

JournalState read_all(const std::string& staging, const std::string& plan_id, const Plan* plan,
                      std::uint64_t slots) {
  std::vector<RecordHead> records;
  std::vector<std::unique_ptr<FileSource>> journals;
  std::set<std::string> workers;
  for (const std::string& name : list_directory(staging)) {
    if (!name.starts_with("journal.")) continue;
    const std::size_t before = records.size();
    auto file = std::make_unique<FileSource>(join_path(staging, name));
    scan_journal(*file, static_cast<std::uint32_t>(journals.size()), plan_id, plan, records);
    if (records.size() == before) continue;
    workers.insert(name.substr(0, name.rfind('.')));  // one may have begun several times
    journals.push_back(std::move(file));
  }
  JournalState state;
  state.records = records.size();
  state.workers = static_cast<std::uint32_t>(workers.size());
  state.sums.assign(slots, {});
  for (const RecordHead& head : select_disjoint(std::move(records))) {
    if (plan == nullptr && slots == 0) {  // who asks how much is done
      state.done.push_back({head.begin, head.end, {}, head.overflows});
      continue;
    }
    JournalRecord record = read_record(*journals[head.journal], head);
    for (const SlotDigest& digest : record.digests) {
      if (digest.slot < slots) state.sums[digest.slot] += digest.sum;
    }
    record.digests = {};
    state.overflows += record.overflows;
    state.done.push_back(std::move(record));
  }
  return state;
}

}  // namespace

JournalState read_journals(const std::string& staging, const std::string& plan_id,
                           std::uint64_t slots) {
  return read_all(staging, plan_id, nullptr, slots);
}

JournalState read_journals(const std::string& staging, const Plan& plan) {
  return read_all(staging, plan.id(), &plan, plan.model().digest_slots());
}

}  // namespace hfshard
