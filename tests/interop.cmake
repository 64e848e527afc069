# Tests with real TensorStore and Orbax, in the Python that HFSHARD_PEER_PYTHON names; skipped where they are missing.
if(TARGET hfshard_testtool)
  set(interop_dir ${CMAKE_CURRENT_LIST_DIR}/interop)
  set(oracle_dir ${CMAKE_CURRENT_LIST_DIR}/oracle)
  function(hfshard_add_interop name script)
    add_test(NAME interop.${name}
      COMMAND ${Python3_EXECUTABLE} ${interop_dir}/${script} --hfshard $<TARGET_FILE:hfshard_testtool> ${ARGN})
    set_tests_properties(interop.${name} PROPERTIES LABELS interop TIMEOUT 600 SKIP_RETURN_CODE 77)
  endfunction()

  # These need no peer.
  add_test(NAME hub_names
    COMMAND ${Python3_EXECUTABLE} ${interop_dir}/hub_names.py --hfshard $<TARGET_FILE:hfshard_testtool>)
  set_tests_properties(hub_names PROPERTIES LABELS slow TIMEOUT 300)
  add_test(NAME module_directories
    COMMAND ${Python3_EXECUTABLE} ${interop_dir}/module_directories.py --hfshard $<TARGET_FILE:hfshard_testtool>)
  set_tests_properties(module_directories PROPERTIES LABELS slow TIMEOUT 600)
  foreach(part RANGE 1 2)
    add_test(NAME abstract_trees_${part}
      COMMAND ${Python3_EXECUTABLE} ${interop_dir}/abstract.py --hfshard $<TARGET_FILE:hfshard_testtool> --part ${part}/2)
    set_tests_properties(abstract_trees_${part} PROPERTIES LABELS slow TIMEOUT 600)
  endforeach()

  # All bytes of every oracle's output, as golden/bytes.txt has them; the frames only with the same release of zstd.
  set(golden_bytes ${CMAKE_CURRENT_LIST_DIR}/golden/bytes.py --hfshard $<TARGET_FILE:hfshard_testtool>)
  add_test(NAME golden.bytes COMMAND ${Python3_EXECUTABLE} ${golden_bytes})
  add_test(NAME golden.bytes_compressed COMMAND ${Python3_EXECUTABLE} ${golden_bytes} --compress)
  set_tests_properties(golden.bytes golden.bytes_compressed PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)

  # Every directory of tests/oracle with an expected.json, several in one process: half of what one takes is the peers' imports.
  # Those that are read in every way have a test each.
  file(GLOB expected CONFIGURE_DEPENDS RELATIVE ${oracle_dir} ${oracle_dir}/*/expected.json)
  set(at 0)
  foreach(file IN LISTS expected)
    get_filename_component(fixture ${file} DIRECTORY)
    if(fixture MATCHES "^(qwen3|llama3[.]1|mixtral)$")
      hfshard_add_interop(fixture_${fixture} fixtures.py ${fixture})
      continue()
    endif()
    math(EXPR part "${at} % 8 + 1")
    math(EXPR at "${at} + 1")
    list(APPEND fixtures_${part} ${fixture})
  endforeach()
  foreach(part RANGE 1 8)
    hfshard_add_interop(fixtures_${part} fixtures.py ${fixtures_${part}})
  endforeach()
  hfshard_add_interop(corruption corruption.py)
  hfshard_add_interop(axis_rules axis_rules.py)
  hfshard_add_interop(links links.py)
  hfshard_add_interop(compress compress.py)
  hfshard_add_interop(ragged ragged.py)
  hfshard_add_interop(way_back way_back.py)
  hfshard_add_interop(decoders decoders.py)
  hfshard_add_interop(hf_decoded hf_decoded.py)
  hfshard_add_interop(first_layers first_layers.py)
  hfshard_add_interop(first_layers_config first_layers_config.py)
  hfshard_add_interop(proof proof.py)
  hfshard_add_interop(read_orbax read_orbax.py)
  hfshard_add_interop(orbax_variants orbax_variants.py)
  hfshard_add_interop(orbax_items orbax_items.py)
  hfshard_add_interop(orbax_processes orbax_processes.py)
  hfshard_add_interop(dcp_variants dcp_variants.py)
  hfshard_add_interop(dcp_written dcp_written.py)
  hfshard_add_interop(dcp_meshes dcp_meshes.py)
  hfshard_add_interop(torchtitan torchtitan.py)
  hfshard_add_interop(torchtitan_native torchtitan_native.py)
  hfshard_add_interop(any_pair any_pair.py)
  hfshard_add_interop(write_safetensors write_safetensors.py)
  hfshard_add_interop(transformers_load transformers_load.py)
  hfshard_add_interop(module_names module_names.py)
  hfshard_add_interop(module_names_transformers module_names.py --transformers)
  hfshard_add_interop(next_words next_words.py)
  # The hub of tests/support, as the real client sees it.
  hfshard_add_interop(hub_peer hub_peer.py)
  add_executable(cache_tool ${interop_dir}/cache_tool.cpp)
  hfshard_test_code(cache_tool)
  target_link_libraries(cache_tool PRIVATE hfshard::bytes)
  hfshard_add_interop(hub_cache hub_cache.py --cache-tool $<TARGET_FILE:cache_tool>)

  # In MaxText, where HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC name it: every fixture that docs/loading.md has.
  file(STRINGS ${PROJECT_SOURCE_DIR}/docs/loading.md rows REGEX "^[|] [a-z][^|]* [|] [a-z0-9.-]* [|] (stacked|separate) [|] nnx ")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/loading.md)
  list(TRANSFORM rows REPLACE "^[|] ([^ |]+) .*" "\\1")
  list(REMOVE_DUPLICATES rows)
  foreach(fixture IN LISTS rows)
    hfshard_add_interop(maxtext_load_${fixture} maxtext_load.py ${fixture})
  endforeach()
  hfshard_add_interop(maxtext_export maxtext_export.py)

  add_test(NAME interop.first_hour
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cli/transcript.py --hfshard $<TARGET_FILE:hfshard> --peers
      ${PROJECT_SOURCE_DIR}/docs/first-hour.md)
  set_tests_properties(interop.first_hour PROPERTIES LABELS interop TIMEOUT 600 SKIP_RETURN_CODE 77)
  add_test(NAME interop.load_bench
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/../bench/e2e/load.py --hfshard $<TARGET_FILE:hfshard>
      --work ${CMAKE_CURRENT_BINARY_DIR} --layers 2 --vocab 8192 --runs 1)
  set_tests_properties(interop.load_bench PROPERTIES LABELS interop TIMEOUT 600 SKIP_RETURN_CODE 77)
  add_test(NAME interop.numpy_oracles COMMAND ${Python3_EXECUTABLE} ${oracle_dir}/make_numpy_oracles.py --check)
  set_tests_properties(interop.numpy_oracles PROPERTIES LABELS interop TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
