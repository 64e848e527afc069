# Tests with real TensorStore and Orbax, in the Python that HFSHARD_PEER_PYTHON names; skipped where they are missing.
if(TARGET hfshard_testtool)
  set(interop_dir ${CMAKE_CURRENT_LIST_DIR}/interop)
  function(hfshard_add_interop name script)
    add_test(NAME interop.${name}
      COMMAND ${Python3_EXECUTABLE} ${interop_dir}/${script} --hfshard $<TARGET_FILE:hfshard_testtool> ${ARGN})
    set_tests_properties(interop.${name} PROPERTIES LABELS interop TIMEOUT 600 SKIP_RETURN_CODE 77)
  endfunction()

  foreach(fixture IN ITEMS qwen3 llama3.1 mixtral)
    hfshard_add_interop(fixture_${fixture} fixtures.py ${fixture})
  endforeach()
  hfshard_add_interop(corruption corruption.py)
  hfshard_add_interop(axis_rules axis_rules.py)
endif()
