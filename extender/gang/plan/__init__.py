"""Pure planning: one immutable snapshot in, seats and victims (or a refusal) out."""
