"""Options and commands of other tools, and what regard calls them.

Each row has the names of an option in fairseq, OpenNMT, JoeyNMT, Hugging Face or scikit-learn, and regard's answer: one for all
tasks, or one for each. Names are compared without leading dashes, and with underscores for dashes.
"""

from collections.abc import Mapping

Answer = str | Mapping[str, str]
"""An answer for all tasks, or answers by task; a task that is missing has no answer."""

_T, _C, _L = "translation", "classification", "language"


def _by_task(translation: str = "", classification: str = "", language: str = "") -> dict[str, str]:
    found = {_T: translation, _C: classification, _L: language}
    return {task: answer for task, answer in found.items() if answer}


_LENGTH = "--data.max_tokens N is the length of the longest {} that {}"
_BPE = _by_task(
    "--tokenizers.source.kind bpe --tokenizers.target.kind bpe, with --tokenizers.source.size and --tokenizers.target.size "
    "for the number of symbols; regard learns it from the text itself",
    "--tokenizer.kind bpe --tokenizer.size N; regard learns it from the text itself",
    "--tokenizer.kind bpe --tokenizer.size N; regard learns it from the text itself",
)
_FILES = _by_task(
    "--data.train train.en,train.de (two parallel files), or --data.train pairs.tsv (one file of pairs)",
    "--data.train FILE",
    "--data.train FILE",
)
_RESUME = "`regard resume RUN` goes on with a run; `regard resume RUN --training.max_epochs N` trains it longer"
_FROM = "--from RUN starts from the model of another run of regard; models of other tools cannot be loaded"
_PRECISION = "--training.precision bfloat16 (or float32; the default, auto, uses bfloat16 if the machine is faster with it)"

TRAINING: tuple[tuple[str, Answer], ...] = (
    # length, batches and the learning rate
    ("epochs epoch num_epochs n_epochs nb_epochs max_epoch num_train_epochs train_epochs", "--training.max_epochs N"),
    ("steps num_steps train_steps max_update max_updates total_num_update updates", "--training.max_steps N (updates)"),
    ("max_iter max_iters n_iter", "--training.max_epochs N (passes over the data), or --training.max_steps N (updates)"),
    (
        "batch_size bs bsz batch max_sentences per_device_train_batch_size per_gpu_train_batch_size train_batch_size "
        "batch_type",
        "--training.batch_sentences N (at most N examples per batch); by default only --training.batch_tokens N, the number "
        "of tokens, limits a batch",
    ),
    (
        "max_tokens",
        _by_task(
            "--training.batch_tokens N for fairseq's meaning, tokens per batch; --data.max_tokens N is the longest pair kept",
            "--training.batch_tokens N for tokens per batch; --data.max_tokens N is the length to which texts are truncated",
            "--training.batch_tokens N for tokens per batch; --data.max_tokens N is the length of the blocks of a text",
        ),
    ),
    (
        "update_freq gradient_accumulation_steps gradient_accumulation accum_count accumulate_grad_batches batch_multiplier",
        "--training.accumulate N",
    ),
    ("lr learning_rate initial_lr init_lr learning_rate_init eta0 alpha_lr", "--training.learning_rate X"),
    (
        "lr_scheduler lr_scheduler_type scheduler scheduling decay_method lr_schedule",
        "--training.schedule.kind constant, inverse_square_root, cosine, linear_decay or plateau",
    ),
    (
        "warmup warmup_steps warmup_updates num_warmup_steps learning_rate_warmup",
        "--training.schedule.warmup_steps N, which every --training.schedule.kind has",
    ),
    ("warmup_ratio", "--training.schedule.warmup_steps N; regard counts updates, not a share of them"),
    ("lr_shrink decrease_factor lr_decay learning_rate_decay", "--training.schedule.kind plateau --training.schedule.factor X"),
    ("min_lr learning_rate_min stop_min_lr", "--training.schedule.kind plateau --training.schedule.minimum X"),
    ("optim optimiser", "--training.optimizer adam, adamw or muon"),
    ("adam_betas adam_beta1 adam_beta2 beta1 beta2", "--training.betas X,Y"),
    ("weight_decay wd l2", "--training.weight_decay X, with --training.optimizer adamw"),
    (
        "alpha penalty c",
        _by_task(
            "",
            "regularisation is --training.weight_decay X with --training.optimizer adamw, and dropout (--model.output_dropout "
            "X); a linear model as scikit-learn's is a part of preset combined (--preset combined)",
        ),
    ),
    ("clip_norm max_grad_norm clip grad_clip gradient_clip_val clip_grad_norm max_norm", "--training.clip_norm X (0 for none)"),
    ("label_smoothing label_smoothing_factor smoothing label_smoothing_epsilon", "--training.label_smoothing X"),
    (
        "dropout p_dropout hidden_dropout_prob dropout_rate",
        _by_task(
            "for --model.kind recurrent --model.encoder.embedding_dropout, --model.encoder.output_dropout, "
            "--model.decoder.embedding_dropout and --model.decoder.readout_dropout; for --model.kind transformer "
            "--model.embedding_dropout and --model.layer_dropout",
            "--model.embedding_dropout X and --model.output_dropout X, and --model.word_dropout X for whole words",
            "--model.embedding_dropout X and --model.layer_dropout X",
        ),
    ),
    (
        "attention_probs_dropout_prob attn_dropout attn_pdrop",
        "--model.attention_dropout X, for --model.kind transformer",
    ),
    ("relu_dropout activation_fn_dropout", _by_task("--model.activation_dropout X", "", "--model.activation_dropout X")),
    # the model
    (
        "arch a model_type architecture model encoder_type decoder_type",
        _by_task(
            "--preset NAME (`regard presets` lists them: luong, bahdanau, transformer-tiny, …), or --model.kind recurrent or "
            "transformer",
            "--preset NAME (`regard presets` lists them: bag, bilstm, combined, transformer, …), or --model.kind",
            "--preset language-tiny, or the sizes under --model.num_layers, --model.hidden_size and --model.num_heads",
        ),
    ),
    (
        "layers num_layers n_layers n_layer num_hidden_layers enc_layers dec_layers",
        _by_task(
            "--model.encoder.num_layers N and --model.decoder.num_layers N for --model.kind recurrent; --model.encoder_layers "
            "N and --model.decoder_layers N for --model.kind transformer",
            "--model.num_layers N",
            "--model.num_layers N",
        ),
    ),
    (
        "hidden_size hidden_dim hidden rnn_size d_model n_embd nhid enc_rnn_size dec_rnn_size encoder_embed_dim "
        "decoder_embed_dim hidden_layer_sizes encoder_hidden_size decoder_hidden_size",
        _by_task(
            "--model.encoder.hidden_size N and --model.decoder.hidden_size N for --model.kind recurrent; --model.hidden_size N "
            "for --model.kind transformer",
            "--model.hidden_size N",
            "--model.hidden_size N",
        ),
    ),
    (
        "embedding_dim embed_dim emb_dim word_vec_size emb_size embedding_size",
        _by_task("--model.embedding_size N for --model.kind recurrent", "--model.embedding_size N", "--model.hidden_size N"),
    ),
    (
        "heads n_heads n_head nhead num_attention_heads encoder_attention_heads decoder_attention_heads",
        "--model.num_heads N",
    ),
    (
        "ffn_dim ff_size d_ff transformer_ff intermediate_size encoder_ffn_embed_dim decoder_ffn_embed_dim dim_feedforward",
        "--model.feed_forward_size N",
    ),
    (
        "global_attention attention attention_type attn",
        _by_task("--model.decoder.attention.kind additive, dot, general, concat, sum_concat or linear", "--model.pooling.kind"),
    ),
    ("rnn_type cell cell_type rnn", _by_task("--model.encoder.cell and --model.decoder.cell", "--model.cell")),
    ("brnn bidirectional", _by_task("--model.encoder.bidirectional true", "--model.bidirectional true")),
    ("input_feed input_feeding", _by_task("--model.decoder.kind luong --model.decoder.input_feeding true")),
    (
        "share_all_embeddings share_embeddings tied_embeddings share_decoder_input_output_embed tie_word_embeddings",
        _by_task("--model.tie_embeddings target, or all with --tokenizers.joint true", "", "--model.tie_embeddings true"),
    ),
    ("num_labels num_classes n_classes", _by_task("", "no setting: regard counts the labels in --data.train")),
    # data
    ("trainpref train_file train_data train_path data dataset train_src train_tgt src_train", _FILES),
    ("dataset_name dataset_config_name hub_dataset", "--data.train FILE; regard reads local files and downloads nothing"),
    (
        "validpref validation_file valid valid_file eval_file validation_data valid_src valid_tgt val dev_file",
        _by_task("--data.dev dev.en,dev.de, or --data.dev pairs.tsv", "--data.dev FILE", "--data.dev FILE"),
    ),
    ("testpref test_file test testset", "`regard evaluate RUN FILE` scores a trained model on a test file"),
    (
        "test_size validation_split validation_fraction val_split valid_size dev_split",
        "--data.dev_size N (a number of examples, not a share; never more than a tenth of the data)",
    ),
    (
        "n_splits cv k_folds kfold num_folds n_folds",
        _by_task("", "--folds N (data.folds): cross-validation with mean and spread"),
    ),
    (
        "source_lang src_lang src s source source_language",
        _by_task(
            "--data.source CODE for the language; files are named by --data.train, columns by --data.columns SOURCE,TARGET"
        ),
    ),
    (
        "target_lang tgt_lang tgt t trg target target_language",
        _by_task(
            "--data.target CODE for the language; files are named by --data.train, columns by --data.columns SOURCE,TARGET"
        ),
    ),
    (
        "text_column text_col text_column_name sentence_column text_field x_col",
        _by_task(
            "--data.columns SOURCE,TARGET", "--data.text COLUMN", "no setting: --data.train is plain text, one text per line"
        ),
    ),
    (
        "label_column label_col label_column_name target_column labels_column y_col label_field",
        _by_task("", "--data.label COLUMN"),
    ),
    ("source_column target_column summary_column src_column tgt_column", _by_task("--data.columns SOURCE,TARGET")),
    (
        "max_train_samples max_samples num_samples limit",
        _by_task("--data.max_pairs N", "--data.max_texts N", "--data.max_texts N"),
    ),
    (
        "max_length max_seq_length max_seq_len max_source_length max_target_length max_source_positions max_target_positions "
        "src_seq_length tgt_seq_length max_sent_length maxlen block_size context_length tokens_per_sample seq_len bptt",
        _by_task(
            _LENGTH.format("pair", "is kept for training") + "; --decoding.max_length N limits translations",
            _LENGTH.format("text", "is read whole"),
            _LENGTH.format("block of a text", "the model is trained on") + "; --generation.max_length N limits what it writes",
        ),
    ),
    (
        "vocab_size vocabulary_size nwordssrc nwordstgt src_vocab_size tgt_vocab_size max_features voc_limit n_vocab max_vocab",
        _by_task(
            "--tokenizers.source.max_size N and --tokenizers.target.max_size N for words; for subwords "
            "--tokenizers.source.kind bpe --tokenizers.source.size N, and the same for --tokenizers.target.kind",
            "--tokenizer.max_size N for words; for subwords --tokenizer.kind bpe --tokenizer.size N",
            "--tokenizer.size N",
        ),
    ),
    (
        "min_df min_freq min_frequency thresholdsrc thresholdtgt src_words_min_frequency tgt_words_min_frequency voc_min_freq",
        _by_task(
            "--tokenizers.source.min_count N and --tokenizers.target.min_count N",
            "--tokenizer.min_count N",
            "--tokenizer.min_count N",
        ),
    ),
    ("bpe bpe_codes subword sentencepiece sp_model src_subword_model codes level", _BPE),
    (
        "tokenizer tokenizer_name tokenize tokenizer_type pretok_type",
        _by_task(
            "--tokenizers.source.kind and --tokenizers.target.kind (words, bpe, unigram, characters, whitespace or spacy)",
            "--tokenizer.kind (words, bpe, unigram, characters, whitespace or spacy)",
            "--tokenizer.kind (words, bpe, unigram, characters, whitespace or spacy)",
        ),
    ),
    (
        "lower lowercase do_lower_case uncased",
        _by_task(
            "--tokenizers.source.lowercase true and --tokenizers.target.lowercase true",
            "--tokenizer.lowercase true",
            "--tokenizer.lowercase true",
        ),
    ),
    ("joined_dictionary share_vocab shared_vocab share_dict", _by_task("--tokenizers.joint true")),
    ("ngram_range word_ngrams wordngrams ngrams", _by_task("", "--model.max_ngram N, for --preset bag")),
    (
        "pre_word_vecs_enc embeddings pretrained_vectors pretrainedvectors glove word_vectors embedding_file load_pretrained",
        _by_task("", "--vectors FILE (data.vectors)"),
    ),
    (
        "class_weight class_weights weighted_loss balanced",
        _by_task("", "--training.class_weights balanced"),
    ),
    # the run
    (
        "save_dir output_dir out_dir save_model model_dir checkpoint_dir outdir output o save_path destdir run_dir logdir "
        "log_dir tensorboard_logdir logging_dir",
        "--out FOLDER, which gets model, checkpoints and logs",
    ),
    ("overwrite_output_dir force reset", "--overwrite"),
    (
        "resume resume_from_checkpoint restore_file resume_from load_checkpoint continue_training ckpt_path",
        _RESUME,
    ),
    (
        "finetune_from_model finetune train_from load_model model_name_or_path model_name pretrained pretrained_model "
        "init_from checkpoint warm_start",
        _FROM,
    ),
    (
        "freeze freeze_encoder freeze_layers",
        "--from RUN --model.freeze PART fine-tunes a model without changing that part",
    ),
    ("random_state random_seed manual_seed", "--seed N"),
    ("fp16 half bf16 amp mixed_precision model_dtype memory_efficient_fp16", _PRECISION),
    ("cpu no_cuda use_cpu", "--device cpu"),
    (
        "gpu gpus gpu_ranks use_cuda use_gpu cuda gpu_id n_gpu",
        "--device cuda, or cuda:N; the default, auto, uses a GPU if there is one",
    ),
    (
        "distributed_world_size world_size num_gpus ddp_backend nproc_per_node n_gpus local_rank",
        "`torchrun --nproc-per-node N --no-python regard train …`",
    ),
    (
        "num_workers dataloader_num_workers n_jobs nthreads num_threads workers thread",
        "--threads N (CPU threads; data are prepared once)",
    ),
    (
        "patience early_stopping early_stopping_patience early_stop n_iter_no_change patience_steps",
        "--training.patience N (number of validations without improvement)",
    ),
    (
        "best_checkpoint_metric metric_for_best_model early_stopping_metric eval_metric metric scoring monitor_metric",
        "--training.monitor NAME",
    ),
    (
        "eval_steps evaluation_strategy eval_strategy validate_interval validate_interval_updates valid_steps validation_freq "
        "eval_every eval_interval",
        "--training.validate_every N (updates; 0 for once per epoch)",
    ),
    (
        "save_steps save_interval save_interval_updates save_checkpoint_steps save_every save_strategy",
        "--training.checkpoint_every N (updates), besides a checkpoint after each epoch",
    ),
    (
        "keep_last_epochs save_total_limit keep_checkpoint keep_best_ckpts no_epoch_checkpoints load_best_model_at_end",
        "no setting: regard keeps the last two checkpoints and the best model; --training.average_last N averages the last N",
    ),
    ("ema ema_alpha swa", "--training.ema_decay X"),
    (
        "report_to tensorboard_dir tensorboard_log wandb_project log_interval logging_steps logging_freq report_every",
        "--training.tensorboard true (the default); logs/metrics.csv has the same numbers, and `regard curves RUN` draws them",
    ),
    (
        "do_train do_eval do_predict predict_with_generate",
        "no switch: `regard train` trains and validates; `regard evaluate RUN FILE` scores",
    ),
    ("criterion loss objective", "no setting: the loss is cross-entropy; --training.label_smoothing X smooths it"),
    (
        "eval_bleu eval_bleu_args scorer sacrebleu",
        _by_task(
            "no switch: every validation computes BLEU of greedy translations; --training.validation_pairs N is their number"
        ),
    ),
    # search
    (
        "beam beam_size num_beams beam_width",
        _by_task("--decoding.beam_size N, the run's default; `regard translate RUN --beam N` for one command"),
    ),
    (
        "lenpen length_penalty beam_alpha len_pen alpha_lenpen",
        _by_task("--decoding.length_penalty X, the run's default; `regard translate RUN --length-penalty X` for one command"),
    ),
    (
        "max_len_b max_len_a max_output_length max_decode_length max_new_tokens gen_max_len",
        _by_task("--decoding.max_length N", "", "--generation.max_length N"),
    ),
    (
        "no_repeat_ngram_size block_ngram_repeat",
        _by_task("--decoding.no_repeat_ngrams N", "", "--generation.no_repeat_ngrams N"),
    ),
    ("min_len min_length", _by_task("--decoding.min_length N")),
    ("replace_unk unk_replace", _by_task("--decoding.replace_unknown true")),
    ("temp sampling_temperature", _by_task("", "", "--generation.temperature X")),
    ("guided_alignment lambda_align alignment_file", _by_task("--data.alignments FILE --training.alignment_weight X")),
    ("scheduled_sampling teacher_forcing_ratio", _by_task("--training.teacher_forcing.end X")),
)
"""Options of other tools for training."""

USING: tuple[tuple[str, str], ...] = (
    ("beam_size num_beams beam_width k", "--beam N"),
    ("lenpen alpha beam_alpha len_pen", "--length-penalty X"),
    ("nbest num_return_sequences n_best_size", "--n-best N"),
    ("no_repeat_ngram_size block_ngram_repeat", "--no-repeat-ngrams N"),
    ("min_len", "--min-length N"),
    ("num_beam_groups diverse_beam_groups", "--groups N"),
    ("diversity_penalty diverse_beam_strength", "--diversity X"),
    ("nbest num_return_sequences n num_samples", "--samples N"),
    ("do_sample sampling", "--sample N"),
    ("max_new_tokens max_len max_len_b length", "--max-length N"),
    ("src source source_file input_file file s i f infile", "--input FILE"),
    ("tgt output_file out output o outfile", "--output FILE"),
    ("out output o output_file save savefig to_file", "--to FILE"),
    ("cpu no_cuda use_cpu", "--device cpu"),
    ("gpu gpus cuda use_cuda use_gpu", "--device cuda"),
    ("n_jobs num_workers num_threads nthreads", "--threads N"),
    ("random_state manual_seed", "--seed N"),
    ("fp16 bf16 half", "--precision bfloat16"),
    ("plot heatmap plot_attention visualize attention_output_dir", "--heatmap FILE"),
)
"""Options of other tools for using a model; an answer applies if the command has the option that it names."""
_MODEL = ("model", "path", "checkpoint", "ckpt", "m", "model_path", "model_name_or_path", "checkpoint_path", "load_model")

_TRAIN = "`regard train translation`, `regard train classification` or `regard train language`"
_USE = "`regard translate RUN`, `regard classify RUN` or `regard generate RUN`"
COMMANDS: tuple[tuple[str, str], ...] = (
    ("fit fairseq_train fairseq_hydra_train onmt_train joeynmt trainer pretrain learn", _TRAIN),
    ("predict infer inference pipeline run fairseq_generate onmt_translate apply", _USE),
    ("interactive fairseq_interactive repl chat", f"{_USE}, which read lines from the terminal"),
    ("test eval validate fairseq_validate sacrebleu bleu accuracy benchmark", "`regard evaluate RUN FILE`"),
    (
        "preprocess prepare fairseq_preprocess onmt_build_vocab build_vocab binarize tokenize",
        f"no separate step: {_TRAIN} prepares its files, and keeps the result",
    ),
    (
        "plot visualize visualise heatmap attention show_attention",
        "`regard look RUN TEXT --to map.png` for attention, `regard curves RUN` for training",
    ),
    ("tensorboard history metrics learning_curve learning_curves", "`regard curves RUN --to curves.png`"),
    ("summary describe show stats inspect model_info", "`regard info RUN`"),
    ("finetune fine_tune", f"{_TRAIN} with --from RUN"),
    ("continue restart", "`regard resume RUN`"),
    ("cross_validate cross_val_score cv", "`regard train classification --folds 10`"),
    ("list models recipes configs", "`regard presets`"),
    ("perplexity ppl", "`regard evaluate RUN FILE` for texts, `regard score RUN FILE` for given translations"),
)
"""Commands of other tools."""

TASKS: tuple[tuple[str, str], ...] = (
    ("translate translator mt nmt seq2seq translation_from_pretrained_bart", _T),
    ("classify classifier text_classification sentiment sentiment_analysis sentence_prediction sequence_classification", _C),
    ("lm language_model language_modeling causal_lm clm text_generation generation generate gpt", _L),
)
"""Names of tasks in other tools."""


def normalise(name: str) -> str:
    """Return a name in lower case, without leading dashes and with underscores for dashes: `--Batch-Size` is `batch_size`."""
    return name.partition("=")[0].lstrip("-").replace("-", "_").lower()


def find_setting(option: str, task: str) -> str:
    """Return regard's answer to a training option of another tool, or an empty string if the option is not known.

    Args:
        option: The option as it was typed: `--num_train_epochs`, `-s`, `--lr=0.1`.
        task: `translation`, `classification` or `language`.
    """
    name = normalise(option)
    for names, answer in TRAINING:
        if name in names.split():
            found = answer if isinstance(answer, str) else answer.get(task, "")
            if found:
                return found
    return ""


def find_option(option: str, known: Mapping[str, object] | frozenset[str]) -> str:
    """Return the option in `known` that corresponds to an option of another tool, or an empty string."""
    name = normalise(option)
    for names, answer in USING:
        if name in names.split() and answer.partition(" ")[0] in known:
            return answer
    return "the folder of the run, without an option" if name in _MODEL else ""


def find_command(name: str) -> str:
    """Return regard's command for the command `name` of another tool, or an empty string."""
    wanted = normalise(name)
    return next((answer for names, answer in COMMANDS if wanted in names.split()), "")


def find_other_name(name: str) -> str:
    """Return the name of the task that another tool calls `name`, or an empty string."""
    wanted = normalise(name)
    return next((task for names, task in TASKS if wanted in names.split()), "")
