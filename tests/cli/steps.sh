# Which step is read: --step in every command, steps that are not complete, and directories of runs.
source "$TESTS/cli/lib.bash"
example qwen3 hf
for step in 50 100; do ends convert hf run --output-step $step; done

echo "-- it is said, and chosen"
said() { "$HFSHARD" "$@" 2>&1 | grep -E 'step|published'; }
said convert run back --to safetensors
said convert run back50 --to safetensors --step 50
said plan run --to safetensors --step 50
said reshard run other
said reshard run other --step 50
said reshard run renamed --step 50 --output-step 7
said convert run separate --layers separate --step 50 --output-step 3
said convert run unnumbered --layers separate --step 50
said inspect run --step 50 --summary
said verify run --step 50
said diff run hf
said diff run other --step 50
"$HFSHARD" mappings check run --step 50 2>&1 | grep -vE '^(rules|dropped)'
"$HFSHARD" mappings check run --step 50 --scheme torchtitan --json --quiet | grep -o '"other_steps":[^"]*,\|"problems":[^,]*,\|"scheme":[^,]*\|"step":[^,]*'
"$HFSHARD" reshard run json --step 50 --json --quiet | grep -o '"other_steps":[^"]*,\|"step":[^,]*'
"$HFSHARD" convert run quiet --to safetensors --quiet 2>&1 | grep -c 'reads step' || true
echo "-- what was read is recorded: a later step changes nothing"
ends convert hf run --output-step 200
ends verify back run
ends verify other/50 run
ends verify other/50 run/50
cp -r run/50 elsewhere
ends verify other/50 elsewhere
for worker in 0/2 1/2; do ends reshard run shared --step 50 --worker $worker; done
said finalize shared
ends verify shared run

echo "-- where nothing has steps"
ends convert hf dcp --to dcp
for command in "convert hf out" "link hf out" "plan hf" "reshard dcp out" "convert dcp out --to safetensors" \
  "inspect hf" "inspect dcp" "diff hf dcp" "verify dcp" "mappings check hf" "mappings check dcp" "inspect run/50"; do
  show $command --step 3
done
show inspect run/50 --step 50 --summary | head -2
show convert hf out --to safetensors --output-step 3
show reshard dcp out --output-step 3
show inspect run --step 51

echo "-- an incomplete step"
mkdir run/300
for command in "convert run out --to safetensors" "reshard run out" "inspect run" "diff run hf" "plan run --to safetensors" \
  "inspect run --step 300"; do
  show $command
done
cp -r run/200/. run/300 && rm run/300/commit_success.txt
sed -i 's/"commit_timestamp_nsecs":[0-9]*/"commit_timestamp_nsecs":null/' run/300/_CHECKPOINT_METADATA
show inspect run
rm run/300/_CHECKPOINT_METADATA && mv run/300/items/manifest.ocdbt . && mkdir run/300/items/ocdbt.process_0
show inspect run
rm -r run/300/items && echo '{}' >run/300/metrics
show inspect run
rm -r run/300
mkdir -p torch/step-10 && cp -r dcp/. torch/step-10 && mkdir torch/step-20
show reshard torch out
cp dcp/*.distcp torch/step-20
show reshard torch out

echo "-- directories of runs"
mkdir -p first/checkpoints first/tensorboard && mv run/50 run/100 first/checkpoints
show inspect first --summary | head -3
said convert first model --to safetensors --step 50
ends verify model first
said verify first --step 100
said diff first hf --step 100
said reshard first first16
mkdir acc && cp -r dcp acc/pytorch_model_fsdp_0 && cp -r dcp acc/optimizer_0
show inspect acc --summary | head -2
cp -r dcp acc/pytorch_model_fsdp_1
show inspect acc
mkdir none && mkdir none/checkpoints
show inspect none
mkdir -p trainer/checkpoint-10 && cp -r dcp trainer/.trash && cp -r dcp trainer/checkpoint-10/pytorch_model_fsdp_0 && cp -r dcp trainer/model && example qwen3 trainer/hf
show inspect trainer

echo "-- several steps"
rm -r run && for step in 3 10 20; do ends convert hf run --output-step $step; done
steps() { "$HFSHARD" reshard "$@" 2>&1 | sed 's/ in [0-9.]* s)/)/'; }
steps run several --steps 10,3 --mesh fsdp=2
steps run several --steps all --mesh fsdp=2
ls several
for step in 3 10 20; do ends verify several/$step run/$step; done
show reshard run several --steps -2 --mesh tensor=2
steps run several --steps -1 --overwrite | grep -v note:
"$HFSHARD" reshard run several --steps 3,20 --mesh fsdp=2 --json --overwrite --quiet | grep -o '"already_done":[^,]*\|"path":"[^"]*"\|"step":[^,]*'
echo "-- a run that was stopped goes on, whichever step it was in"
ends reshard run stopped --step 10 --worker 0/2
steps run stopped --steps all | grep -E 'published|complete'
ls -A . | grep stopped
echo "-- of PyTorch: as torchtitan names them"
steps run titan --steps -2 --to dcp 2>/dev/null | grep published
steps titan titan2 --steps all 2>/dev/null | grep published
show reshard run titan/step-10 --steps all --to dcp
echo "-- nothing is written unless all can be"
mkdir run/30
for list in 3,4 all -2 30 x -0 -1,2 3,,4 "" 99999999999999999999; do show reshard run never --steps "$list"; done
for words in "--step 3" "--output-step 3" "--worker 0/2" "--dry-run"; do show reshard run never --steps 3 $words; done
show reshard run --steps 3 --to null
show reshard dcp never --steps all
show reshard run/3 never --steps all
mkdir never && echo >never/notes.txt && rmdir run/30
show reshard run never --steps all
ls never
