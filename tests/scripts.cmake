# Tests that are scripts: the command line cases, and conversions that are killed, interrupted or refused.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

file(GLOB cli_cases CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cli/*.sh)
# Words on the screen are put together by one thread, before others start or after they have ended; what is refused starts none.
# Conversions with all their threads are run by the other cases.
set(one_thread bad_mapping bad_quantized bad_source complete_bash complete_fish complete_zsh dry_run help help_width
  json_place manual mistaken num_layers prefix readme refused_paths reshard sizes usage utf8)
foreach(case IN LISTS cli_cases)
  get_filename_component(name ${case} NAME_WE)
  if(HFSHARD_SANITIZE STREQUAL "thread" AND name IN_LIST one_thread)
    continue()
  endif()
  # One measures; the others ask what tables of rules and of options say, in hundreds of runs of the same code.
  if(HFSHARD_SANITIZE AND name MATCHES "^(codec_time|dialect|examples|json_docs|next|own_mapping|pairs|plan_text)$")
    continue()
  endif()
  add_test(NAME cli.${name}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cli/run.py --hfshard $<TARGET_FILE:hfshard> ${case})
  set_tests_properties(cli.${name} PROPERTIES LABELS fast TIMEOUT 600 SKIP_RETURN_CODE 77)
  if(HFSHARD_SANITIZE)
    set_tests_properties(cli.${name} PROPERTIES ENVIRONMENT SANITIZED=${HFSHARD_SANITIZE})
  endif()
endforeach()

# Every command of docs/first-hour.md; those that need Orbax are run with the peers (interop.cmake).
add_test(NAME cli.first_hour
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cli/transcript.py --hfshard $<TARGET_FILE:hfshard>
    ${PROJECT_SOURCE_DIR}/docs/first-hour.md)
set_tests_properties(cli.first_hour PROPERTIES LABELS fast TIMEOUT 300)
# It waits for terminals and disks more than it computes, and a sanitizer finds nothing in that.
if(TARGET hfshard_testtool AND NOT HFSHARD_SANITIZE)
  add_test(NAME cli.terminal
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cli/terminal.py --hfshard $<TARGET_FILE:hfshard_testtool>)
  set_tests_properties(cli.terminal PROPERTIES LABELS fast TIMEOUT 600)
endif()

# What torchtitan's own adapter makes of small checkpoints, and the way back. It asks what the tables say; how their rules run
# is looked at by the unit tests, which take a tenth of its time with a sanitizer.
if(NOT HFSHARD_SANITIZE)
  add_test(NAME torchtitan_names
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/torchtitan/check.py --hfshard $<TARGET_FILE:hfshard>)
  set_tests_properties(torchtitan_names PROPERTIES LABELS fast TIMEOUT 300)
endif()

# The test tool has the same commands and one option more, with which small data has many files and commits.
# Their seed is fixed. soak.cmake has each with more rounds and a new seed.
set(fault_limits --limits file_min_bytes=4194304,file_max_bytes=8388608,merge_bytes=2097152,commit_bytes=2097152)
set(fault_options --hfshard $<TARGET_FILE:hfshard_testtool> ${fault_limits})
function(hfshard_add_fault name rounds script)
  add_test(NAME fault.${name}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/${script} ${fault_options} --seed 1 --rounds ${rounds} ${ARGN})
  set_tests_properties(fault.${name} PROPERTIES LABELS slow TIMEOUT 900 SKIP_RETURN_CODE 77)
endfunction()
hfshard_add_fault(kill_resume 12 kill_resume.py)
hfshard_add_fault(kill_resume_compressed 6 kill_resume.py --option=--compress=zstd)
hfshard_add_fault(interrupt 8 interrupt.py)
hfshard_add_fault(refused_write 8 refused_write.py)
hfshard_add_fault(changed_source 7 changed_source.py)
hfshard_add_fault(truncated_source 6 truncated_source.py)
hfshard_add_fault(disk_full 5 disk_full.py)

add_test(NAME fault.cpus
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/cpus.py ${fault_options})
set_tests_properties(fault.cpus PROPERTIES LABELS slow TIMEOUT 300 SKIP_RETURN_CODE 77)

# What is asked of the system, and what when it refuses. A sanitizer asks for more, which no bound here knows.
if(NOT HFSHARD_SANITIZE)
  add_test(NAME fault.memory
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/memory.py --hfshard $<TARGET_FILE:hfshard> --short)
  hfshard_add_fault(out_of_memory 1 out_of_memory.py)
  add_test(NAME fault.refused_threads
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/refused_threads.py ${fault_options})
  set_tests_properties(fault.refused_threads PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
  set_tests_properties(fault.memory PROPERTIES LABELS slow TIMEOUT 900 RUN_SERIAL TRUE)
endif()

# What is installed suffices for a program of others. A sanitizer would have to be theirs too.
if(NOT HFSHARD_SANITIZE)
  add_test(NAME install.library
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/install/library.py --build ${PROJECT_BINARY_DIR}
      --cmake ${CMAKE_COMMAND} --generator ${CMAKE_GENERATOR} --compiler ${CMAKE_CXX_COMPILER}
      --work ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(install.library PROPERTIES LABELS slow TIMEOUT 600)
endif()

# The recipes of scripts/cluster, each on this machine.
add_test(NAME cluster.recipes
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cluster/recipes.py --hfshard $<TARGET_FILE:hfshard_testtool>
    --limits file_min_bytes=8192,file_max_bytes=16384,merge_bytes=4096,floor_bytes=256)
add_test(NAME cluster.same_pids
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cluster/same_pids.py
    --hfshard $<TARGET_FILE:hfshard_testtool>
    --limits file_min_bytes=8192,file_max_bytes=16384,merge_bytes=4096,floor_bytes=256)
set_tests_properties(cluster.recipes cluster.same_pids PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)

# Every family at every size that it lists, and no fewer sizes than were promised.
add_test(NAME mappings.check_all
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/interop/check_all.py --hfshard $<TARGET_FILE:hfshard>)
set_tests_properties(mappings.check_all PROPERTIES LABELS slow TIMEOUT 120)

# Every end-to-end bench once, small, so that none rots. What does not depend on speed is still checked: results, memory.
set(e2e ${CMAKE_CURRENT_LIST_DIR}/../bench/e2e)
set(e2e_options --hfshard $<TARGET_FILE:hfshard> --work ${CMAKE_CURRENT_BINARY_DIR} --runs 1)
add_test(NAME bench.convert
  COMMAND ${Python3_EXECUTABLE} ${e2e}/convert.py ${e2e_options} --layers 2 --vocab 8192)
add_test(NAME bench.convert_dtype
  COMMAND ${Python3_EXECUTABLE} ${e2e}/convert.py ${e2e_options} --layers 2 --vocab 8192 --to safetensors --dtype f32
    --max-memory 512MiB --caches warm)
add_test(NAME bench.way_back
  COMMAND ${Python3_EXECUTABLE} ${e2e}/way_back.py ${e2e_options} --layers 2 --vocab 8192)
add_test(NAME bench.sparse
  COMMAND ${Python3_EXECUTABLE} ${e2e}/sparse.py ${e2e_options} --layers 2 4 --vocab 8192 --most-slope 1000000)
add_test(NAME bench.plan
  COMMAND ${Python3_EXECUTABLE} ${e2e}/plan.py ${e2e_options} --most-seconds 60)
add_test(NAME bench.link
  COMMAND ${Python3_EXECUTABLE} ${e2e}/link.py ${e2e_options} --most-seconds 60 60)
add_test(NAME bench.hub
  COMMAND ${Python3_EXECUTABLE} ${e2e}/hub.py ${e2e_options} --bytes 100MiB --vocab 8192 --link 400e6,0.01 --connections 4 --least 0)
set_tests_properties(bench.convert bench.convert_dtype bench.way_back bench.sparse bench.plan bench.link bench.hub PROPERTIES LABELS slow TIMEOUT 900 RUN_SERIAL TRUE)

if(TARGET hfshard_testtool)
  add_test(NAME fault.kill_publish
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/kill_publish.py
      --hfshard $<TARGET_FILE:hfshard_testtool> --only InPlaceAgain --only Step --only Finalize)
  set_tests_properties(fault.kill_publish PROPERTIES LABELS slow TIMEOUT 900)
  add_test(NAME fault.commands
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/commands.py --hfshard $<TARGET_FILE:hfshard_testtool> --points 2)
  set_tests_properties(fault.commands PROPERTIES LABELS slow TIMEOUT 300)
  add_test(NAME fault.way_back
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/way_back.py --hfshard $<TARGET_FILE:hfshard_testtool>
    --seed 1 --rounds 6)
  set_tests_properties(fault.way_back PROPERTIES LABELS slow TIMEOUT 300)
  add_test(NAME fault.hub_stream
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/hub_stream.py
      --hfshard $<TARGET_FILE:hfshard_testtool> --seed 1 --rounds 20)
  set_tests_properties(fault.hub_stream PROPERTIES LABELS slow TIMEOUT 900)
  add_test(NAME fault.hub_token
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/hub_token.py
      --hfshard $<TARGET_FILE:hfshard_testtool>)
  set_tests_properties(fault.hub_token PROPERTIES LABELS slow TIMEOUT 300 SKIP_RETURN_CODE 77)
  add_test(NAME fault.hub_reach
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/hub_reach.py
      --hfshard $<TARGET_FILE:hfshard_testtool>)
  set_tests_properties(fault.hub_reach PROPERTIES LABELS slow TIMEOUT 300)
  add_test(NAME fault.hub_fetch
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/hub_fetch.py
      --hfshard $<TARGET_FILE:hfshard_testtool>)
  set_tests_properties(fault.hub_fetch PROPERTIES LABELS slow TIMEOUT 600)
  add_test(NAME fault.determinism
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/determinism.py
      --hfshard $<TARGET_FILE:hfshard_testtool>)
  set_tests_properties(fault.determinism PROPERTIES LABELS slow TIMEOUT 900)
endif()
