// Tries mutants of every mapping table, and reports which check refuses each: lint, accounting or
// an oracle.

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <iostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "mapping/tables/expand.h"
#include "mapping/tables/family.h"
#include "mutation/cases.h"
#include "mutation/judge.h"
#include "mutation/mutants.h"
#include "support/test_data.h"

#include "hfshard/error.h"

namespace hfshard::mutation {
namespace {

constexpr std::size_t kFewestMutants = 2000;

struct Arguments {
  CaseSources sources;
  std::string only;  ///< one family
  bool markdown = false;
  bool verbose = false;
};

using Counts = std::array<std::size_t, kVerdicts>;

// The counts of a family's mutants.
struct Report {
  std::string family;
  std::string error;  ///< why it has no counts
  std::size_t cases = 0;
  std::size_t oracles = 0;
  std::size_t idle = 0;  ///< mutants of rules that no case uses
  Counts counts{};
  std::array<Counts, kKinds> by_kind{};
  std::vector<std::string> survivors;
  std::vector<std::string> all;

  std::size_t of(Verdict verdict) const { return counts[static_cast<std::size_t>(verdict)]; }
  std::size_t judged() const {
    return of(Verdict::lint) + of(Verdict::accounting) + of(Verdict::oracle) +
           of(Verdict::survivor);
  }
};

std::string line_of(const FamilyFile& family, const Mutant& mutant, std::string_view verdict,
                    const std::string& reason) {
  return fmt::format("{}{}  {}: {}\n    {}\n    {}\n    {}", family.path, pointer_of(mutant.rule),
                     to_string(mutant.kind), verdict, mutant.before, mutant.after, reason);
}

// Returns the expanded family, so that shared parts have mutants in each family. Leaves out members
// that no mutant changes and no check reads, since it is parsed a million times.
Json essence_of(const FamilyFile& family) {
  Json out = expand_family(family).json;
  for (const std::string_view key : {"sizes", "source"}) out.object().erase(std::string(key));
  for (auto& [name, scheme] : out["schemes"].object()) {
    for (const std::string_view key : {"notes", "warnings", "settings", "model_names"})
      scheme.object().erase(std::string(key));
  }
  return out;
}

// Returns pointers of the rules in which a mutant differs. Empty if it can change which rules
// apply.
std::vector<std::string> touched_rules(const FamilyFile& family, const Mutant& mutant) {
  std::vector<std::string> out;
  const bool anywhere = mutant.kind == Kind::condition || mutant.kind == Kind::index ||
                        mutant.kind == Kind::stack_index;
  for (const Edit& edit : mutant.edits) {
    const auto list = std::ranges::find_if(edit.at, [](const std::string& key) {
      return key == "global" || key == "rules" || key == "fill" || key == "parts";
    });
    if (anywhere || list == edit.at.end()) return {};
    const auto depth = list - edit.at.begin() + (*list == "parts" ? 3 : 2);
    const Path rule(edit.at.begin(), std::min(edit.at.begin() + depth, edit.at.end()));
    out.push_back(std::string(family.path) + pointer_of(rule));
  }
  return out;
}

void judge_family(const FamilyFile& family, const Arguments& arguments, Report& out) {
  const Json json = essence_of(family);
  const std::string unchanged = dump_json(json);
  const Judge judge(make_cases({family.name, family.path, unchanged}, arguments.sources));
  out.cases = judge.cases().size();
  for (const Case& one : judge.cases()) out.oracles += one.has_oracle() ? 1U : 0U;
  const Judgement control = judge.judge({family.name, family.path, unchanged}, {});
  if (control.verdict != Verdict::equivalent)
    throw Error(ErrorCode::internal, "the table itself is refused: " + control.reason);
  const std::vector<Mutant> mutants = make_mutants(json);
  std::vector<Judgement> judgements;
  std::set<Path> idle;  // rules whose removal no check detects
  for (const Mutant& mutant : mutants) {
    const std::string text = text_of(json, mutant);
    judgements.push_back(
        judge.judge({family.name, family.path, text}, touched_rules(family, mutant)));
    const bool whole = mutant.edits.size() == 1 && !mutant.edits.front().value;
    if (mutant.kind == Kind::drop_rule && whole && judgements.back().verdict == Verdict::equivalent)
      idle.insert(mutant.edits.front().at);
  }
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    const Mutant& mutant = mutants[i];
    Judgement& judgement = judgements[i];
    if (judgement.verdict == Verdict::equivalent && idle.contains(mutant.rule)) {
      if (mutant.kind != Kind::drop_rule) {
        ++out.idle;
        continue;
      }
      judgement = {Verdict::survivor, "no case needs this rule"};
    }
    const auto verdict = static_cast<std::size_t>(judgement.verdict);
    ++out.counts[verdict];
    ++out.by_kind[static_cast<std::size_t>(mutant.kind)][verdict];
    const std::string line =
        line_of(family, mutant, to_string(judgement.verdict), judgement.reason);
    if (judgement.verdict == Verdict::survivor) out.survivors.push_back(line);
    if (arguments.verbose) out.all.push_back(line);
  }
}

std::vector<Report> judge_all(const Arguments& arguments) {
  std::vector<const FamilyFile*> families;
  for (const FamilyFile& family : embedded_families()) {
    if (arguments.only.empty() || family.name == arguments.only) families.push_back(&family);
  }
  std::vector<Report> reports(families.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < families.size(); i = next++) {
      reports[i].family = std::string(families[i]->name);
      try {
        judge_family(*families[i], arguments, reports[i]);
      } catch (const std::exception& error) {  // the other families are still judged
        reports[i].error = error.what();
      }
    }
  };
  std::vector<std::thread> threads(std::max(1U, std::thread::hardware_concurrency()));
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  return reports;
}

Report total_of(const std::vector<Report>& reports) {
  Report out;
  out.family = "total";
  for (const Report& report : reports) {
    out.cases += report.cases;
    out.oracles += report.oracles;
    out.idle += report.idle;
    for (std::size_t v = 0; v < kVerdicts; ++v) {
      out.counts[v] += report.counts[v];
      for (std::size_t k = 0; k < kKinds; ++k) out.by_kind[k][v] += report.by_kind[k][v];
    }
  }
  return out;
}

std::string cells(const Counts& counts) {
  const auto at = [&](Verdict verdict) { return counts[static_cast<std::size_t>(verdict)]; };
  const std::size_t judged =
      at(Verdict::lint) + at(Verdict::accounting) + at(Verdict::oracle) + at(Verdict::survivor);
  return fmt::format("{} | {} | {} | {} | {} | {}", judged, at(Verdict::equivalent),
                     at(Verdict::lint), at(Verdict::accounting), at(Verdict::oracle),
                     at(Verdict::survivor));
}

void print_tables(std::vector<Report> reports) {
  const Report total = total_of(reports);
  reports.push_back(total);
  const std::string_view head =
      "mutants | equivalent | lint | accounting | oracle | survivors |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n";
  std::cout << "| family | " << head;
  for (const Report& report : reports)
    std::cout << fmt::format("| {} | {} |\n", report.family, cells(report.counts));
  std::cout << "\n| mistake | " << head;
  for (std::size_t k = 0; k < kKinds; ++k) {
    std::cout << fmt::format("| {} | {} |\n", to_string(static_cast<Kind>(k)),
                             cells(total.by_kind[k]));
  }
}

int print(const std::vector<Report>& reports, const Arguments& arguments) {
  const Report total = total_of(reports);
  bool good = total.of(Verdict::survivor) == 0;
  good = good && (!arguments.only.empty() || total.judged() >= kFewestMutants);
  for (const Report& report : reports) {
    for (const std::string& line : report.all) std::cout << line << "\n";
    if (report.error.empty()) continue;
    std::cout << report.family << ": " << report.error << "\n";
    good = false;
  }
  for (const Report& report : reports) {
    if (arguments.markdown) break;
    for (const std::string& line : report.survivors) std::cout << line << "\n";
  }
  print_tables(reports);
  if (!arguments.markdown) {
    std::cout << fmt::format(
        "\n{} mutants (at least {}), {} survivors; {} of rules that no case needs; {} cases, {} of "
        "them with an oracle\n",
        total.judged(), kFewestMutants, total.of(Verdict::survivor), total.idle, total.cases,
        total.oracles);
  }
  return good ? 0 : 1;
}

int run(const std::vector<std::string>& words) {
  Arguments arguments;
  arguments.sources = {test_data("oracle"), test_data("torchtitan"),
                       test_data("interop/module_names.json"), test_data("mutation/variants.json")};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--markdown") {
      arguments.markdown = true;
    } else if (words[i] == "--all") {
      arguments.verbose = true;
    } else if (words[i] == "--oracles" && i + 1 < words.size()) {
      arguments.sources.oracles = words[++i];
    } else if (words[i] == "--family" && i + 1 < words.size()) {
      arguments.only = words[++i];
    } else {
      std::cerr << "usage: mutation [--markdown] [--all] [--family NAME] [--oracles DIRECTORY]\n";
      return 2;
    }
  }
  return print(judge_all(arguments), arguments);
}

}  // namespace
}  // namespace hfshard::mutation

int main(int argc, char** argv) {
  try {
    return hfshard::mutation::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {  // nothing else is left to do
    std::cerr << error.what() << "\n";
    return 1;
  }
}
