"""Trains a LoRA adapter with which a causal language model answers a prompt by a class word (AML, Table 2).

    python scripts/models/train_lora.py MODEL emotion runs/lora --prompt "Text: {text}\\nEmotion:" \\
        --class-words sadness,joy,love,anger,fear,surprise

The class words are in the order of the data's classes. The loss is that of the class words alone, at the position after
the prompt. The adapter's folder loads as any model: `troth study aml --base runs/lora --prompt … --no-chat`.
"""

import argparse
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

import troth
from troth.data import load_data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--class-words", required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--limit", type=int, default=None)
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    prompt, words = asked.prompt.replace("\\n", "\n"), asked.class_words.split(",")
    torch.manual_seed(0)

    tokenizer = AutoTokenizer.from_pretrained(asked.model, padding_side="right")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    network = AutoModelForCausalLM.from_pretrained(asked.model, dtype=dtype).to(device)
    layers = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = LoraConfig(task_type="CAUSAL_LM", r=asked.rank, lora_alpha=2 * asked.rank, target_modules=layers)
    network = get_peft_model(network, config)
    answers = torch.tensor([tokenizer(f" {word}", add_special_tokens=False).input_ids for word in words]).to(device)
    if answers.shape[1] != 1:
        raise SystemExit("a class word must be one token")

    examples = load_data(asked.data, split="train", limit=asked.limit).examples
    steps = asked.epochs * -(-len(examples) // asked.batch_size)
    optimizer = torch.optim.AdamW(
        [weight for weight in network.parameters() if weight.requires_grad], lr=asked.learning_rate
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, asked.learning_rate, total_steps=steps, pct_start=0.06)
    begun, step = time.perf_counter(), 0
    network.train()
    for _ in range(asked.epochs):
        for index in torch.randperm(len(examples)).split(asked.batch_size):
            chosen = [examples[place] for place in index.tolist()]
            filled = [prompt.replace("{text}", example.text) for example in chosen]
            rows = tokenizer(filled, return_tensors="pt", padding=True, truncation=True, max_length=512).to(device)
            gold = torch.tensor([int(example.label) for example in chosen], device=device)
            states = network.get_base_model().model(**rows).last_hidden_state
            last = states[torch.arange(len(gold), device=device), rows.attention_mask.sum(1) - 1]
            logits = network.get_base_model().lm_head(last)[:, answers[:, 0]].float()
            loss = torch.nn.functional.cross_entropy(logits, gold)
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step += 1
            if step % 50 == 0:
                print(
                    f"step {step} of {steps}: loss {loss.item():.3f}, {time.perf_counter() - begun:.0f} s", flush=True
                )
    network.save_pretrained(asked.out)
    tokenizer.save_pretrained(asked.out)

    model = troth.load_model(asked.out, prompt=prompt, class_words=words, chat=False)
    tested = load_data(asked.data, split="test", limit=500).examples
    answered = troth.explain(model, tested, "random")
    right = [found.target == int(example.label) for found, example in zip(answered, tested, strict=True)]
    print(f"accuracy {sum(right) / len(right):.3f} on {len(right)} texts of test; {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
