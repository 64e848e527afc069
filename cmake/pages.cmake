# cmake -DPROGRAM=hfshard -DPAGES=DIR -P pages.cmake: fills DIR/share with what the program says of itself, manual pages and
# completions, where the tools look for them below a prefix.
file(REMOVE_RECURSE ${PAGES})
set(share ${PAGES}/share)

function(hfshard_page file)
  get_filename_component(folder ${share}/${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${share}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

hfshard_page(bash-completion/completions/hfshard completions bash)
hfshard_page(zsh/site-functions/_hfshard completions zsh)
hfshard_page(fish/vendor_completions.d/hfshard.fish completions fish)
file(MAKE_DIRECTORY ${share}/man/man1)
execute_process(COMMAND ${PROGRAM} man --into ${share}/man/man1 COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${PAGES}/made "")
