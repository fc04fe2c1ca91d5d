"""From notebooks to figures: profiles, papermill, replicates on Dask, artefacts, claims and their manifest."""
