# The soak: what only `scripts/test --all` runs (tests/README.md). Included last.

# hfshard_soak(NAME...): takes these tests out of the gate.
function(hfshard_soak)
  foreach(name IN LISTS ARGN)
    if(TEST ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS soak)
    endif()
  endforeach()
endfunction()

# hfshard_add_soak(NAME SCRIPT ARGUMENTS...): adds the long form of a test of the gate, as soak.NAME.
function(hfshard_add_soak name script)
  add_test(NAME soak.${name}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/${script} --hfshard $<TARGET_FILE:hfshard_testtool> ${ARGN})
  set_tests_properties(soak.${name} PROPERTIES LABELS "slow;soak" TIMEOUT 3600 RUN_SERIAL TRUE SKIP_RETURN_CODE 77)
endfunction()

# With a sanitizer, the gate runs programs that test the code. Commands run the same code again, hundreds of times.
if(HFSHARD_SANITIZE)
  get_property(tests DIRECTORY PROPERTY TESTS)
  list(FILTER tests EXCLUDE REGEX "^(unit_[a-z]+|conformance|property|fuzz[.].+|tsan[.]planted_race)$")
  hfshard_soak(${tests})
  return()
endif()

# They need MaxText, or the transformers of its environment: only `scripts/test --with-maxtext` runs them.
get_property(tests DIRECTORY PROPERTY TESTS)
set(maxtext ${tests})
list(FILTER maxtext INCLUDE REGEX "^interop[.](maxtext_.+|next_load_[0-9]+|check_logits_.+|next_words|transformers_load|absent_keys|first_layers_config|module_names_transformers)$")
foreach(name IN LISTS maxtext)
  set_property(TEST ${name} APPEND PROPERTY LABELS maxtext)
endforeach()

# They measure. The gate has no bound on time, and the memory of a plan is in fault.memory.
set(benches ${tests})
list(FILTER benches INCLUDE REGEX "^(bench[.].+|.*_bench_runs|interop[.]load_bench|cli[.]codec_time)$")
hfshard_soak(${benches})

# All mutants of all tables. The gate has those of a dense model, one with experts, and one with two kinds of layers.
hfshard_soak(mutation)
foreach(family llama mixtral qwen3_next)
  add_test(NAME mutation_${family} COMMAND mutation --family ${family})
  set_tests_properties(mutation_${family} PROPERTIES LABELS slow TIMEOUT 600)
endforeach()

# Every oracle in every form in every real reader. interop.proof reads each of them with TensorStore, golden.bytes compares all
# bytes, and interop.fixture_* reads three models with everything.
set(parts ${tests})
list(FILTER parts INCLUDE REGEX "^interop[.]fixtures_[0-9]+$")
hfshard_soak(${parts} golden.bytes_compressed)
hfshard_soak(interop.quantized_families interop.quantized_forms interop.quantized_others)

# Trainers, and torchtitan's own parser for the arguments of every published model.
hfshard_soak(interop.torchtitan_resume interop.torchtitan_words)

# The same tests for every model.
hfshard_add_soak(compress interop/compress.py)
hfshard_add_soak(way_back_models interop/way_back.py)
hfshard_add_soak(first_layers interop/first_layers.py)
hfshard_add_soak(any_pair interop/any_pair.py)
hfshard_add_soak(torchtitan interop/torchtitan.py)
hfshard_add_soak(torchtitan_native interop/torchtitan_native.py)
hfshard_add_soak(former_names interop/former_names.py)
hfshard_add_soak(claims interop/claims.py --all)
hfshard_add_soak(module_directories interop/module_directories.py)

# The same tests, with more rounds, other seeds, or everything that they can be asked.
hfshard_add_soak(kill_resume fault/kill_resume.py --seed random --rounds 60 ${fault_limits})
hfshard_add_soak(kill_resume_compressed fault/kill_resume.py --seed random --rounds 40 ${fault_limits} --option=--compress=zstd)
hfshard_add_soak(interrupt fault/interrupt.py --seed random --rounds 40 ${fault_limits})
hfshard_add_soak(refused_write fault/refused_write.py --seed random --rounds 40 ${fault_limits})
hfshard_add_soak(changed_source fault/changed_source.py --seed random --rounds 40 ${fault_limits})
hfshard_add_soak(truncated_source fault/truncated_source.py --seed random --rounds 40 ${fault_limits})
hfshard_add_soak(disk_full fault/disk_full.py --seed random --rounds 40 ${fault_limits})
hfshard_add_soak(out_of_memory fault/out_of_memory.py --seed random --rounds 20 ${fault_limits})
hfshard_add_soak(way_back fault/way_back.py --seed random --rounds 30)
hfshard_add_soak(kill_publish fault/kill_publish.py)
hfshard_add_soak(commands fault/commands.py --seed random)
hfshard_add_soak(hub_stream fault/hub_stream.py --seed random --rounds 100)
hfshard_add_soak(memory fault/memory.py)
