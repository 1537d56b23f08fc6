-- Functions that read a table of tenants ask who acts once, before they read: a condition that calls a function does not say where the
-- rows of one tenant are, and a distributed PostgreSQL refuses it inside a trigger. Otherwise the function of `0007_workshop`, whose
-- comments hold here too. COLLATE "C" is that of the column; a variable would take the order of the function's arguments.

-- A session knows the settings of pg_trgm, and lets the owner set them, once it has called a function of it.
DO $$ BEGIN PERFORM public.show_trgm(''); END $$;

CREATE OR REPLACE FUNCTION remem.shadowed_rule(world_of text, content bytea) RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER
  SET search_path = pg_catalog SET pg_trgm.similarity_threshold = 0.85 SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE plain bytea := content; said text COLLATE "default"; hit text; acting text COLLATE "C" := remem.current_tenant();
BEGIN
  WHILE position('\x00'::bytea in plain) > 0 LOOP
    plain := overlay(plain placing '\x20'::bytea from position('\x00'::bytea in plain) for 1);
  END LOOP;
  said := convert_from(plain, 'UTF8');
  IF length(said) < 100 THEN RETURN NULL; END IF;
  SELECT r.id INTO hit FROM remem.rule r WHERE r.tenant_id = acting AND r.world = world_of AND r.body OPERATOR(public.%) said
    AND public.similarity(r.body, said) > 0.85::real LIMIT 1;
  RETURN hit;
END $$;
