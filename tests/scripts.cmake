# Tests that are scripts: the command line cases, and conversions that are killed, interrupted or refused.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

file(GLOB cli_cases CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cli/*.sh)
foreach(case IN LISTS cli_cases)
  get_filename_component(name ${case} NAME_WE)
  add_test(NAME cli.${name}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cli/run.py --hfshard $<TARGET_FILE:hfshard> ${case})
  set_tests_properties(cli.${name} PROPERTIES LABELS fast TIMEOUT 600 SKIP_RETURN_CODE 77)
endforeach()

# The test tool has the same commands and one option more, with which small data has many files and commits.
set(fault_options --hfshard $<TARGET_FILE:hfshard>)
if(TARGET hfshard_testtool)
  set(fault_options --hfshard $<TARGET_FILE:hfshard_testtool>
    --limits file_min_bytes=4194304,file_max_bytes=8388608,merge_bytes=2097152,commit_bytes=4194304)
endif()
foreach(fault IN ITEMS kill_resume interrupt refused_write changed_source)
  add_test(NAME fault.${fault}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fault/${fault}.py ${fault_options})
  set_tests_properties(fault.${fault} PROPERTIES LABELS slow TIMEOUT 900 RUN_SERIAL TRUE)
endforeach()
